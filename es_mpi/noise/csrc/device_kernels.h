// The kernels of a GPU. A thread works on the four elements of a Philox block at a time; a partial first or last block of
// [g0, g0 + n) is masked. device.cu compiles this file for GPUs, the tests for the host, where threads take turns.
#pragma once

#include "digest.h"
#include "kernels.h"
#include "philox_normal.h"
#include "rounding.h"

namespace {

struct Place {
    uint64_t g0, n, stream;
};

// ---- the elements of one thread --------------------------------------------------------------------------------------

struct Quad {
    float z[4];
};

ES_MPI_INLINE Quad normals(uint64_t block, uint64_t seed, uint64_t stream) {
    Block<uint64_t> c[1] = {{uint32_t(block), block >> 32, uint32_t(stream), stream >> 32}};
    philox(c, seed);
    const uint32_t radii[2] = {uint32_t(c[0].w0), uint32_t(c[0].w2)};
    const uint32_t angles[2] = {uint32_t(c[0].w1), uint32_t(c[0].w3)};
    float r[2];
    radius<2>(r, radii);
    const Direction<float> first = direction<float>(angles[0]), second = direction<float>(angles[1]);
    return {{r[0] * first.cos, r[0] * first.sin, r[1] * second.cos, r[1] * second.sin}};
}

// Calls body(block, begin, end, offset) for each block of this thread: its elements [begin, end) belong to the call, and
// element 0 of the block would be at `offset` (possibly "negative") of the caller's array.
template <class Body>
ES_MPI_INLINE void each_block(Place place, Body body) {
    const uint64_t first = place.g0 / 4, last = (place.g0 + place.n + 3) / 4;
    const uint64_t threads = uint64_t(gridDim.x) * blockDim.x;
    for (uint64_t b = first + uint64_t(blockIdx.x) * blockDim.x + threadIdx.x; b < last; b += threads) {
        const uint64_t offset = 4 * b - place.g0, end = place.g0 + place.n - 4 * b;
        body(b, b == first ? int(place.g0 % 4) : 0, end < 4 ? int(end) : 4, offset);
    }
}

struct alignas(16) Four {
    float values[4];
};

ES_MPI_INLINE bool aligned(const void* address, int begin, int end) { return end - begin == 4 && uintptr_t(address) % 16 == 0; }

ES_MPI_INLINE Four load(const float* from, int begin, int end) {
    if (aligned(from, begin, end)) return *reinterpret_cast<const Four*>(from);
    Four four = {};
    for (int i = 0; i < 4; ++i)
        if (i >= begin && i < end) four.values[i] = from[i];
    return four;
}

ES_MPI_INLINE void store(float* to, const Four& four, int begin, int end) {
    if (aligned(to, begin, end)) {
        *reinterpret_cast<Four*>(to) = four;
        return;
    }
    for (int i = 0; i < 4; ++i)
        if (i >= begin && i < end) to[i] = four.values[i];
}

ES_MPI_INLINE void store(uint16_t* to, const uint32_t* bits, int begin, int end) {
    if (end - begin == 4 && uintptr_t(to) % 8 == 0) {
        *reinterpret_cast<uint64_t*>(to) = bits[0] | bits[1] << 16 | uint64_t(bits[2] | bits[3] << 16) << 32;
        return;
    }
    for (int i = 0; i < 4; ++i)
        if (i >= begin && i < end) to[i] = uint16_t(bits[i]);
}

}  // namespace

// ---- kernels ---------------------------------------------------------------------------------------------------------

extern "C" __global__ void es_mpi_fill(float* out, uint64_t n, uint64_t g0, uint64_t seed, uint64_t stream) {
    each_block({g0, n, stream}, [=](uint64_t block, int begin, int end, uint64_t offset) {
        const Quad eps = normals(block, seed, stream);
        store(out + offset, Four{{eps.z[0], eps.z[1], eps.z[2], eps.z[3]}}, begin, end);
    });
}

// out = round(fma(sigma, eps, theta)); a sigma of 0 is a plain cast.
extern "C" __global__ void es_mpi_perturb(void* out, int dtype, const float* master, uint64_t n, uint64_t g0, uint64_t seed,
                                          uint64_t stream, float sigma) {
    each_block({g0, n, stream}, [=](uint64_t block, int begin, int end, uint64_t offset) {
        Four noisy = load(master + offset, begin, end);
        if (sigma != 0.0f) {
            const Quad eps = normals(block, seed, stream);
            for (int i = 0; i < 4; ++i) noisy.values[i] = fma32(sigma, eps.z[i], noisy.values[i]);
        }
        uint32_t bits[4];
        for (int i = 0; i < 4; ++i) bits[i] = dtype == BF16 ? bf16_bits(noisy.values[i]) : fp16_bits(noisy.values[i]);
        if (dtype == FP32)
            store(static_cast<float*>(out) + offset, noisy, begin, end);
        else
            store(static_cast<uint16_t*>(out) + offset, bits, begin, end);
    });
}

// theta += sum of c_i eps_i, summed in registers in member order; sums += (sum a^2, sum d^2, sum a d).
extern "C" __global__ void es_mpi_update(float* master, uint64_t n, uint64_t g0, const uint64_t* seeds,
                                         const float* coefficients, uint64_t members, uint64_t stream, double* sums) {
    double mine[3] = {};
    each_block({g0, n, stream}, [=, &mine](uint64_t block, int begin, int end, uint64_t offset) {
        float a[4] = {};
        for (uint64_t m = 0; m < members; ++m) {
            const Quad eps = normals(block, seeds[m], stream);
            for (int i = 0; i < 4; ++i) a[i] = fma32(coefficients[m], eps.z[i], a[i]);
        }
        Four theta = load(master + offset, begin, end);
        for (int i = 0; i < 4; ++i) {
            if (i < begin || i >= end) continue;
            const float before = theta.values[i];
            theta.values[i] = a[i] == 0.0f ? before : before + a[i];  // -0 + 0 would turn into +0
            const double d = bf16_value(theta.values[i]) - bf16_value(before);
            mine[0] += double(a[i]) * a[i];
            mine[1] += d * d;
            mine[2] += a[i] * d;
        }
        store(master + offset, theta, begin, end);
    });
    for (int s = 0; s < 3; ++s) add_to(sums + s, mine[s]);
}

extern "C" __global__ void es_mpi_digest(const float* master, uint64_t n, uint64_t g0, unsigned long long* sum) {
    unsigned long long mine = 0;
    each_block({g0, n, 0}, [=, &mine](uint64_t, int begin, int end, uint64_t offset) {
        const Four theta = load(master + offset, begin, end);
        for (int i = begin; i < end; ++i) mine += digest_term(theta.values[i], g0 + offset + i);
    });
    add_to(sum, mine);
}
