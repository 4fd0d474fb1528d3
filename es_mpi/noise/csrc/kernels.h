// What one instruction set offers. All kernels run on one thread, over the elements [g0, g0 + n) of the global index.
#pragma once

#include <stdint.h>

enum Dtype { FP32 = 0, BF16 = 1, FP16 = 2 };

struct Kernels {
    const char* isa;
    void (*fill)(float* out, uint64_t n, uint64_t g0, uint64_t seed, uint64_t stream);
    void (*perturb)(void* out, Dtype dtype, const float* master, uint64_t n, uint64_t g0, uint64_t seed, uint64_t stream,
                    float sigma);
    void (*update)(float* master, uint64_t n, uint64_t g0, const uint64_t* seeds, const float* coefficients, uint64_t count,
                   uint64_t stream, double* sums);
    void (*normals_of)(float* z0, float* z1, const uint32_t* radii, const uint32_t* angles, uint64_t n);
    uint64_t (*philox)(uint64_t n, uint64_t g0, uint64_t seed, uint64_t stream);
    uint64_t (*digest)(const float* master, uint64_t n, uint64_t g0);
};

extern const Kernels es_mpi_kernels_portable;
#ifdef ES_MPI_X86
extern const Kernels es_mpi_kernels_avx2;
extern const Kernels es_mpi_kernels_avx512;
#endif
#ifdef ES_MPI_AVX512BF16
extern const Kernels es_mpi_kernels_avx512bf16;
#endif
