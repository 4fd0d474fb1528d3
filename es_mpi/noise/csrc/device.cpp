// Noise on a GPU, through the driver that is on every machine with one: libcuda.so.1 is opened when it is asked for, and the
// kernels' image (device.cu, compiled by nvcc where the library was built) is loaded into the caller's CUDA context. Neither
// nvcc nor the CUDA runtime is needed. Kernels return nullptr, or what went wrong.
#include <cstdint>
#include <cstdio>
#include <dlfcn.h>
#include <memory>
#include <type_traits>

#include "kernels.h"

#define ES_MPI_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

// ---- the image -------------------------------------------------------------------------------------------------------

#ifdef ES_MPI_DEVICE_IMAGE
asm(".pushsection .rodata\n.balign 16\nes_mpi_device_image:\n.incbin \"" ES_MPI_DEVICE_IMAGE "\"\n.popsection\n");
extern "C" const char es_mpi_device_image[] __attribute__((visibility("hidden")));
const void* image() { return es_mpi_device_image; }
#else
const void* image() { return nullptr; }
#endif

// ---- the driver API: the few functions used, as cuda.h declares them ---------------------------------------------------

typedef int Result;  // 0 is success
struct Context;
struct Module;
struct Function;
struct Queue;

constexpr int MULTIPROCESSORS = 16;  // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT

struct Driver {
    Result (*cuCtxGetCurrent)(Context**);
    Result (*cuCtxGetDevice)(int*);
    Result (*cuDeviceGetAttribute)(int*, int, int);
    Result (*cuModuleLoadData)(Module**, const void*);
    Result (*cuModuleUnload)(Module*);
    Result (*cuModuleGetFunction)(Function**, Module*, const char*);
    Result (*cuGetErrorString)(Result, const char**);
    Result (*cuLaunchKernel)(Function*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Queue*, void**,
                             void**);
};

thread_local char message[256];

const char* fail(const char* what, const char* why) {
    std::snprintf(message, sizeof message, "%s: %s", what, why);
    return message;
}

// The driver stays open for the life of the process: closing it under a running torch would be worse.
const char* open(Driver& driver) {
    void* library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) return fail("no CUDA driver", dlerror());
    const auto bind = [&](auto& function, const char* name) {
        function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
        return function != nullptr;
    };
#define ES_MPI_BIND(name) bind(driver.name, #name)
    const bool whole = ES_MPI_BIND(cuCtxGetCurrent) && ES_MPI_BIND(cuCtxGetDevice) && ES_MPI_BIND(cuDeviceGetAttribute) &&
                       ES_MPI_BIND(cuModuleLoadData) && ES_MPI_BIND(cuModuleUnload) && ES_MPI_BIND(cuModuleGetFunction) &&
                       ES_MPI_BIND(cuGetErrorString) && ES_MPI_BIND(cuLaunchKernel);
    return whole ? nullptr : fail("the CUDA driver is too old", dlerror());
}

// ---- kernels of one context --------------------------------------------------------------------------------------------

enum Kernel { FILL, PERTURB, UPDATE, DIGEST, KERNELS };
const char* const names[KERNELS] = {"es_mpi_fill", "es_mpi_perturb", "es_mpi_update", "es_mpi_digest"};

struct Device {
    Driver driver;
    Module* module = nullptr;
    Function* functions[KERNELS] = {};
    unsigned multiprocessors = 0;

    ~Device() {
        if (module) driver.cuModuleUnload(module);
    }

    const char* check(Result result, const char* what) const {
        if (result == 0) return nullptr;
        const char* why = "unknown error";
        driver.cuGetErrorString(result, &why);
        return fail(what, why);
    }

    const char* load() {
        if (const char* error = ::open(driver)) return error;
        Context* context = nullptr;
        int device = 0, count = 0;
        if (const char* error = check(driver.cuCtxGetCurrent(&context), "no CUDA context")) return error;
        if (!context) return fail("no CUDA context", "none is current; torch makes one with its first CUDA tensor");
        if (const char* error = check(driver.cuCtxGetDevice(&device), "no CUDA device")) return error;
        if (const char* error = check(driver.cuDeviceGetAttribute(&count, MULTIPROCESSORS, device), "no device attribute"))
            return error;
        multiprocessors = unsigned(count);
        if (const char* error = check(driver.cuModuleLoadData(&module, image()), "the noise kernels do not load")) return error;
        for (int kernel = 0; kernel < KERNELS; ++kernel)
            if (const char* error = check(driver.cuModuleGetFunction(&functions[kernel], module, names[kernel]), names[kernel]))
                return error;
        return nullptr;
    }

    // A thread for each block of four elements, up to what fills the device a few times over.
    const char* launch(Kernel kernel, uint64_t n, void* queue, void** arguments) const {
        constexpr unsigned THREADS = 256;
        const uint64_t wanted = (n / 4 + 2 + THREADS - 1) / THREADS, most = uint64_t(multiprocessors) * 32;
        if (n == 0) return nullptr;
        return check(driver.cuLaunchKernel(functions[kernel], unsigned(wanted < most ? wanted : most), 1, 1, THREADS, 1, 1, 0,
                                           static_cast<Queue*>(queue), arguments, nullptr),
                     names[kernel]);
    }
};

}  // namespace

// ---- the interface: addresses are the device's, `queue` is the CUDA stream ---------------------------------------------

ES_MPI_EXPORT int es_mpi_device_built() { return image() != nullptr; }

ES_MPI_EXPORT const char* es_mpi_device_open(Device** device) {
    if (!image()) return fail("no kernels for GPUs", "the noise library was built where there was no nvcc");
    auto opened = std::make_unique<Device>();
    const char* error = opened->load();
    *device = error ? nullptr : opened.release();
    return error;
}

ES_MPI_EXPORT void es_mpi_device_close(Device* device) { delete device; }

ES_MPI_EXPORT const char* es_mpi_device_fill(Device* device, void* queue, uint64_t out, uint64_t n, uint64_t g0,
                                             uint64_t seed, uint64_t stream) {
    void* arguments[] = {&out, &n, &g0, &seed, &stream};
    return device->launch(FILL, n, queue, arguments);
}

ES_MPI_EXPORT const char* es_mpi_device_perturb(Device* device, void* queue, uint64_t out, int dtype, uint64_t master,
                                                uint64_t n, uint64_t g0, uint64_t seed, uint64_t stream, float sigma) {
    void* arguments[] = {&out, &dtype, &master, &n, &g0, &seed, &stream, &sigma};
    return device->launch(PERTURB, n, queue, arguments);
}

// `sums`, three doubles, are added to.
ES_MPI_EXPORT const char* es_mpi_device_update(Device* device, void* queue, uint64_t master, uint64_t n, uint64_t g0,
                                               uint64_t seeds, uint64_t coefficients, uint64_t members, uint64_t stream,
                                               uint64_t sums) {
    void* arguments[] = {&master, &n, &g0, &seeds, &coefficients, &members, &stream, &sums};
    return device->launch(UPDATE, n, queue, arguments);
}

// `sum`, 64 bits, is added to.
ES_MPI_EXPORT const char* es_mpi_device_digest(Device* device, void* queue, uint64_t master, uint64_t n, uint64_t g0,
                                               uint64_t sum) {
    void* arguments[] = {&master, &n, &g0, &sum};
    return device->launch(DIGEST, n, queue, arguments);
}
