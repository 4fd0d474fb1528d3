// A CUDA driver without a GPU: memory is the host's, and a kernel's threads take turns. It runs the source of the device
// kernels, compiled for the host, so that a test sees what they compute and how they are launched.
#include <cstdint>
#include <cstring>
#include <initializer_list>

#define __global__
struct Dimension {
    unsigned x, y, z;
};
static Dimension gridDim, blockDim, blockIdx, threadIdx;

template <class Number>
static void add_to(Number* sum, Number value) {
    *sum += value;
}

#include "device_kernels.h"

static bool context = true;
static int refuse = 0;
static int falsify = 0;

extern "C" {
void host_driver_context(int present) { context = present; }
void host_driver_refuse(int result) { refuse = result; }
void host_driver_falsify(int bits) { falsify = bits; }

int cuCtxGetCurrent(const void** current) {
    *current = context ? &context : nullptr;
    return 0;
}
int cuCtxGetDevice(int* device) { return *device = 0; }
int cuDeviceGetAttribute(int* value, int attribute, int) {
    *value = attribute == 16 ? 2 : -1;
    return 0;
}
int cuModuleLoadData(const void** module, const void* image) {
    *module = image;
    return image ? refuse : 1;
}
int cuModuleUnload(void*) { return 0; }
int cuModuleGetFunction(const char** function, void*, const char* name) {
    for (const char* known : {"es_mpi_fill", "es_mpi_perturb", "es_mpi_update", "es_mpi_digest"})
        if (!std::strcmp(known, name)) return *function = known, 0;
    return 500;
}
int cuGetErrorString(int, const char** text) {
    *text = "refused";
    return 0;
}

static void call(const char* name, void** a) {
    const auto u64 = [&](int i) { return *static_cast<uint64_t*>(a[i]); };
    const auto address = [&](int i) { return reinterpret_cast<void*>(u64(i)); };
    switch (name[7]) {
        case 'f':
            return es_mpi_fill(static_cast<float*>(address(0)), u64(1), u64(2), u64(3), u64(4));
        case 'p':
            return es_mpi_perturb(address(0), *static_cast<int*>(a[1]), static_cast<float*>(address(2)), u64(3), u64(4), u64(5),
                                  u64(6), *static_cast<float*>(a[7]));
        case 'u':
            return es_mpi_update(static_cast<float*>(address(0)), u64(1), u64(2), static_cast<uint64_t*>(address(3)),
                                 static_cast<float*>(address(4)), u64(5), u64(6), static_cast<double*>(address(7)));
        default:
            return es_mpi_digest(static_cast<float*>(address(0)), u64(1), u64(2),
                                 static_cast<unsigned long long*>(address(3)));
    }
}

int cuLaunchKernel(const char* name, unsigned grid, unsigned, unsigned, unsigned block, unsigned, unsigned, unsigned, void*,
                   void** arguments, void**) {
    if (refuse) return refuse;
    gridDim = {grid, 1, 1};
    blockDim = {block, 1, 1};
    for (blockIdx.x = 0; blockIdx.x < grid; ++blockIdx.x)
        for (threadIdx.x = 0; threadIdx.x < block; ++threadIdx.x) call(name, arguments);
    if (falsify && name[7] == 'u') **static_cast<uint32_t**>(arguments[0]) ^= 1;
    return 0;
}
}
