// The few operations that the noise is made of, on plain numbers; lanes.h has the same on vectors.
//
// All are IEEE binary32 operations rounded to nearest even, so every compiler and device gives the same bits.
#pragma once

#include <stdint.h>

#ifdef __CUDACC__
#define ES_MPI_INLINE static __device__ __forceinline__
#define ES_MPI_UNROLL _Pragma("unroll")
#else
#define ES_MPI_INLINE static inline __attribute__((always_inline))
#define ES_MPI_UNROLL _Pragma("GCC unroll 16")
#endif

ES_MPI_INLINE float as_float(uint32_t bits) {
    float value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

ES_MPI_INLINE uint32_t as_bits(float value) {
    uint32_t bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    return bits;
}

ES_MPI_INLINE float unsigned_to_float(uint32_t n) { return float(n); }
ES_MPI_INLINE float signed_to_float(uint32_t n) { return float(int32_t(n)); }

// Low 32 bits of a times m, all 64 bits.
ES_MPI_INLINE uint64_t widening_product(uint64_t a, uint32_t m) { return uint64_t(uint32_t(a)) * m; }

// The high word in the low half; the high half of the result is of no meaning.
ES_MPI_INLINE uint64_t high_word(uint64_t a) { return a >> 32; }

#ifdef __CUDACC__
ES_MPI_INLINE float fma32(float a, float b, float c) { return __fmaf_rn(a, b, c); }
ES_MPI_INLINE float sqrt32(float x) { return __fsqrt_rn(x); }
#else
ES_MPI_INLINE float fma32(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
ES_MPI_INLINE float sqrt32(float x) { return __builtin_sqrtf(x); }
#endif
