// The widest vector of 64-bit lanes of the instruction set this file is compiled for.
#pragma once

#include <stdint.h>

#if defined(__AVX512F__) || defined(__AVX2__) || defined(__SSE2__)
#include <immintrin.h>
#endif

// widening_product: low 32 bits of each lane times m, all 64 bits. Compilers do not find this instruction by themselves.
#if defined(__AVX512F__)
typedef uint64_t Lanes __attribute__((vector_size(64)));
static inline __attribute__((always_inline)) Lanes widening_product(Lanes a, uint32_t m) {
    return Lanes(_mm512_mul_epu32(__m512i(a), _mm512_set1_epi64(m)));
}
#elif defined(__AVX2__)
typedef uint64_t Lanes __attribute__((vector_size(32)));
static inline __attribute__((always_inline)) Lanes widening_product(Lanes a, uint32_t m) {
    return Lanes(_mm256_mul_epu32(__m256i(a), _mm256_set1_epi64x(m)));
}
#elif defined(__SSE2__)
typedef uint64_t Lanes __attribute__((vector_size(16)));
static inline __attribute__((always_inline)) Lanes widening_product(Lanes a, uint32_t m) {
    return Lanes(_mm_mul_epu32(__m128i(a), _mm_set1_epi64x(m)));
}
#else
typedef uint64_t Lanes __attribute__((vector_size(16)));
static inline __attribute__((always_inline)) Lanes widening_product(Lanes a, uint32_t m) {
    return (a & uint64_t(0xffffffff)) * uint64_t(m);
}
#endif

constexpr int lanes = sizeof(Lanes) / sizeof(uint64_t);
