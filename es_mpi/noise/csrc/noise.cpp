// The C ABI of the noise library: chooses the kernels once, divides the elements over threads, guards the rounding mode.
// Callers (es_mpi/noise/native.py) have checked every argument; g0 + n must not exceed 2^63.
#include "kernels.h"

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#define ES_MPI_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

constexpr uint64_t CHUNK = uint64_t(1) << 16;  // elements; aligned in the global index, so sums do not depend on threads

// ---- instruction sets, fastest first ---------------------------------------------------------------------------------

struct Candidate {
    const Kernels* kernels;
    bool (*supported)();
};

#ifdef ES_MPI_X86
bool has_avx512() {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma");
}
#endif

const Candidate candidates[] = {
#ifdef ES_MPI_AVX512BF16
    {&es_mpi_kernels_avx512bf16, [] { return has_avx512() && __builtin_cpu_supports("avx512bf16"); }},
#endif
#ifdef ES_MPI_X86
    {&es_mpi_kernels_avx512, has_avx512},
    {&es_mpi_kernels_avx2, [] { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }},
#endif
    {&es_mpi_kernels_portable, [] { return true; }},
};

const Kernels* find(const char* isa) {
    for (const Candidate& candidate : candidates)
        if ((!*isa || !std::strcmp(isa, candidate.kernels->isa)) && candidate.supported()) return candidate.kernels;
    return nullptr;
}

std::atomic<const Kernels*> chosen{nullptr};

const Kernels& kernels() {
    if (!chosen) chosen = find("");
    return *chosen;
}

// ---- threads ---------------------------------------------------------------------------------------------------------

// Round to nearest, denormals kept, whatever the caller's thread is set to; everything is restored on return.
class DefaultRounding {
public:
    DefaultRounding() {
        std::fegetenv(&saved_);
        std::fesetenv(FE_DFL_ENV);
    }
    ~DefaultRounding() { std::fesetenv(&saved_); }

private:
    std::fenv_t saved_;
};

uint64_t chunk_count(uint64_t g0, uint64_t n) { return n ? (g0 + n - 1) / CHUNK - g0 / CHUNK + 1 : 0; }

// The chunks of one call. Threads take the next free one, so a thread that the machine holds up delays nobody: one that comes
// when all are taken goes away again, and the caller has not waited for it.
struct Job {
    std::function<void(uint64_t)> work;
    uint64_t chunks;
    std::atomic<uint64_t> next{0}, done{0};
    std::mutex mutex;
    std::condition_variable finished;

    void run() {
        const DefaultRounding guard;
        for (uint64_t chunk = next++; chunk < chunks; chunk = next++) {
            work(chunk);
            if (++done < chunks) continue;
            const std::lock_guard lock(mutex);
            finished.notify_all();
        }
    }

    void wait() {
        std::unique_lock lock(mutex);
        finished.wait(lock, [this] { return done == chunks; });
    }
};

// Calls work(chunk, offset, count) for every chunk of [g0, g0 + n). A thread that cannot be started is done without.
template <class Work>
void each_chunk(uint64_t g0, uint64_t n, int threads, Work work) {
    const auto job = std::make_shared<Job>();
    job->chunks = chunk_count(g0, n);
    job->work = [=](uint64_t chunk) {
        const uint64_t first = std::max(g0, (g0 / CHUNK + chunk) * CHUNK);
        const uint64_t last = std::min(g0 + n, (g0 / CHUNK + chunk + 1) * CHUNK);
        work(chunk, first - g0, last - first);
    };
    try {
        for (uint64_t t = 1; t < std::min<uint64_t>(threads, job->chunks); ++t) std::thread([job] { job->run(); }).detach();
    } catch (const std::system_error&) {
    }
    job->run();
    job->wait();
}

}  // namespace

// ---- the interface ---------------------------------------------------------------------------------------------------

ES_MPI_EXPORT int es_mpi_noise_abi() { return 2; }

ES_MPI_EXPORT const char* es_mpi_noise_isa() { return kernels().isa; }

// Chooses an instruction set by name ("" = the fastest). Returns 0, and changes nothing, if this CPU or build lacks it.
ES_MPI_EXPORT int es_mpi_noise_select(const char* isa) {
    const Kernels* found = find(isa);
    if (found) chosen = found;
    return found != nullptr;
}

ES_MPI_EXPORT void es_mpi_noise_fill(float* out, uint64_t n, uint64_t g0, uint64_t seed, uint64_t stream, int threads) {
    each_chunk(g0, n, threads, [=, &k = kernels()](uint64_t, uint64_t offset, uint64_t count) {
        k.fill(out + offset, count, g0 + offset, seed, stream);
    });
}

ES_MPI_EXPORT void es_mpi_noise_perturb(void* out, int dtype, const float* master, uint64_t n, uint64_t g0, uint64_t seed,
                                        uint64_t stream, float sigma, int threads) {
    const uint64_t size = dtype == FP32 ? 4 : 2;
    each_chunk(g0, n, threads, [=, &k = kernels()](uint64_t, uint64_t offset, uint64_t count) {
        k.perturb(static_cast<char*>(out) + offset * size, Dtype(dtype), master + offset, count, g0 + offset, seed, stream,
                  sigma);
    });
}

// `sums` receives (sum a^2, sum d^2, sum a d): a the fp32 step, d the move of the bf16 copy. For monitoring.
ES_MPI_EXPORT void es_mpi_noise_update(float* master, uint64_t n, uint64_t g0, const uint64_t* seeds,
                                       const float* coefficients, uint64_t members, uint64_t stream, int threads,
                                       double* sums) {
    std::vector<double> partial(3 * chunk_count(g0, n));
    each_chunk(g0, n, threads, [=, &partial, &k = kernels()](uint64_t chunk, uint64_t offset, uint64_t count) {
        k.update(master + offset, count, g0 + offset, seeds, coefficients, members, stream, &partial[3 * chunk]);
    });
    std::fill(sums, sums + 3, 0.0);
    for (size_t i = 0; i < partial.size(); ++i) sums[i % 3] += partial[i];
}

ES_MPI_EXPORT void es_mpi_noise_normals_of(float* z0, float* z1, const uint32_t* radii, const uint32_t* angles, uint64_t n) {
    const DefaultRounding guard;
    kernels().normals_of(z0, z1, radii, angles, n);
}

ES_MPI_EXPORT uint64_t es_mpi_noise_philox(uint64_t n, uint64_t g0, uint64_t seed, uint64_t stream, int threads) {
    std::atomic<uint64_t> sum{0};
    each_chunk(g0, n, threads, [=, &sum, &k = kernels()](uint64_t, uint64_t offset, uint64_t count) {
        sum ^= k.philox(count, g0 + offset, seed, stream);
    });
    return sum;
}

ES_MPI_EXPORT uint64_t es_mpi_noise_digest(const float* master, uint64_t n, uint64_t g0, int threads) {
    std::atomic<uint64_t> sum{0};
    each_chunk(g0, n, threads, [=, &sum, &k = kernels()](uint64_t, uint64_t offset, uint64_t count) {
        sum += k.digest(master + offset, count, g0 + offset);
    });
    return sum;
}

// FNV-1a, 64 bit, for the golden value.
ES_MPI_EXPORT uint64_t es_mpi_noise_fnv1a(const unsigned char* bytes, uint64_t n, uint64_t basis) {
    for (uint64_t i = 0; i < n; ++i) basis = (basis ^ bytes[i]) * 0x100000001B3u;
    return basis;
}
