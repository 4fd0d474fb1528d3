// The operations of arithmetic.h on the widest vectors of the instruction set this file is compiled for.
#pragma once

#include "arithmetic.h"

#if defined(__AVX512F__)
#define ES_MPI_VECTOR 64
#elif defined(__AVX2__)
#define ES_MPI_VECTOR 32
#else
#define ES_MPI_VECTOR 16
#endif

#if defined(__SSE2__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

typedef uint64_t Wide __attribute__((vector_size(ES_MPI_VECTOR)));
typedef uint32_t Words __attribute__((vector_size(ES_MPI_VECTOR)));
typedef int32_t Integers __attribute__((vector_size(ES_MPI_VECTOR)));
typedef float Floats __attribute__((vector_size(ES_MPI_VECTOR)));
typedef uint16_t Halves __attribute__((vector_size(ES_MPI_VECTOR)));
typedef uint16_t HalfHalves __attribute__((vector_size(ES_MPI_VECTOR / 2)));

constexpr int LANES = ES_MPI_VECTOR / 4;  // of 32 bits

ES_MPI_INLINE Floats as_float(Words bits) { return Floats(bits); }
ES_MPI_INLINE Words as_bits(Floats values) { return Words(values); }
ES_MPI_INLINE Floats signed_to_float(Words n) { return __builtin_convertvector(Integers(n), Floats); }
ES_MPI_INLINE Floats splat(float value) { return value - Floats{}; }

#if defined(__AVX512F__)

ES_MPI_INLINE Floats unsigned_to_float(Words n) { return Floats(_mm512_cvtepu32_ps(__m512i(n))); }
ES_MPI_INLINE Floats fma32(Floats a, Floats b, Floats c) { return Floats(_mm512_fmadd_ps(__m512(a), __m512(b), __m512(c))); }
ES_MPI_INLINE Floats sqrt32(Floats x) { return Floats(_mm512_sqrt_ps(__m512(x))); }
ES_MPI_INLINE Wide widening_product(Wide a, uint32_t m) { return Wide(_mm512_mul_epu32(__m512i(a), _mm512_set1_epi64(m))); }
ES_MPI_INLINE Wide high_word(Wide a) { return Wide(_mm512_shuffle_epi32(__m512i(a), _MM_PERM_DDBB)); }
ES_MPI_INLINE Floats zip_low(Floats a, Floats b) { return Floats(_mm512_unpacklo_ps(__m512(a), __m512(b))); }
ES_MPI_INLINE Floats zip_high(Floats a, Floats b) { return Floats(_mm512_unpackhi_ps(__m512(a), __m512(b))); }

#elif defined(__AVX2__)

ES_MPI_INLINE Floats fma32(Floats a, Floats b, Floats c) { return Floats(_mm256_fmadd_ps(__m256(a), __m256(b), __m256(c))); }
ES_MPI_INLINE Floats sqrt32(Floats x) { return Floats(_mm256_sqrt_ps(__m256(x))); }
ES_MPI_INLINE Wide widening_product(Wide a, uint32_t m) { return Wide(_mm256_mul_epu32(__m256i(a), _mm256_set1_epi64x(m))); }
ES_MPI_INLINE Wide high_word(Wide a) { return Wide(_mm256_shuffle_epi32(__m256i(a), 0xf5)); }
ES_MPI_INLINE Floats zip_low(Floats a, Floats b) { return Floats(_mm256_unpacklo_ps(__m256(a), __m256(b))); }
ES_MPI_INLINE Floats zip_high(Floats a, Floats b) { return Floats(_mm256_unpackhi_ps(__m256(a), __m256(b))); }

#elif defined(__ARM_NEON)

ES_MPI_INLINE Floats unsigned_to_float(Words n) { return Floats(vcvtq_f32_u32(uint32x4_t(n))); }
ES_MPI_INLINE Floats fma32(Floats a, Floats b, Floats c) { return Floats(vfmaq_f32(float32x4_t(c), float32x4_t(a), float32x4_t(b))); }
ES_MPI_INLINE Floats sqrt32(Floats x) { return Floats(vsqrtq_f32(float32x4_t(x))); }
ES_MPI_INLINE Wide widening_product(Wide a, uint32_t m) { return Wide(vmull_n_u32(vmovn_u64(uint64x2_t(a)), m)); }
ES_MPI_INLINE Floats zip_low(Floats a, Floats b) { return Floats(vzip1q_f32(float32x4_t(a), float32x4_t(b))); }
ES_MPI_INLINE Floats zip_high(Floats a, Floats b) { return Floats(vzip2q_f32(float32x4_t(a), float32x4_t(b))); }

#else  // no fused multiply-add: one call a lane

ES_MPI_INLINE Floats fma32(Floats a, Floats b, Floats c) {
    for (int i = 0; i < LANES; ++i) c[i] = fma32(a[i], b[i], c[i]);
    return c;
}
ES_MPI_INLINE Floats sqrt32(Floats x) {
    for (int i = 0; i < LANES; ++i) x[i] = sqrt32(x[i]);
    return x;
}
#if defined(__SSE2__)
ES_MPI_INLINE Wide widening_product(Wide a, uint32_t m) { return Wide(_mm_mul_epu32(__m128i(a), _mm_set1_epi64x(m))); }
#else
ES_MPI_INLINE Wide widening_product(Wide a, uint32_t m) { return (a & 0xffffffff) * m; }
#endif
ES_MPI_INLINE Floats zip_low(Floats a, Floats b) { return Floats{a[0], b[0], a[1], b[1]}; }
ES_MPI_INLINE Floats zip_high(Floats a, Floats b) { return Floats{a[2], b[2], a[3], b[3]}; }

#endif

#if !defined(__AVX2__)  // (AVX-512 implies it)
ES_MPI_INLINE Wide high_word(Wide a) { return a >> 32; }
#endif

#if !defined(__AVX512F__) && !defined(__ARM_NEON)
// x86 converts only signed integers. Both halves become exact floats by way of the exponent; their sum is rounded once.
ES_MPI_INLINE Floats unsigned_to_float(Words n) {
    const Floats low = as_float((n & 0xffff) | 0x4b000000);  // 2^23 + low half
    const Floats high = as_float((n >> 16) | 0x53000000);    // 2^39 + high half 2^16
    return (high - 0x1.0001p+39f) + low;
}
#endif

// The low halves of the lanes of both.
ES_MPI_INLINE Words pack(Wide low, Wide high) {
#if defined(__AVX512F__)
    return Words(_mm512_mask_shuffle_epi32(__m512i(low), 0xaaaa, __m512i(high), _MM_PERM_CCAA));
#elif defined(__AVX2__)
    return Words(_mm256_blend_epi32(__m256i(low), __m256i(high << 32), 0xaa));  // a compiler makes three operations of it
#else
    return Words((low & 0xffffffff) | (high << 32));
#endif
}

// The low 16 bits of all lanes of both, whose other bits are zero.
ES_MPI_INLINE Halves narrow(Words low, Words high) {
#if defined(__AVX512F__)
    const __m512i mixed = _mm512_packus_epi32(__m512i(low), __m512i(high));  // within 128 bits each
    return Halves(_mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), mixed));
#elif defined(__AVX2__)
    const __m256i mixed = _mm256_packus_epi32(__m256i(low), __m256i(high));  // within 128 bits each
    return Halves(_mm256_permute4x64_epi64(mixed, 0xd8));
#else
    Halves both;
    const auto a = __builtin_convertvector(low, HalfHalves), b = __builtin_convertvector(high, HalfHalves);
    __builtin_memcpy(&both, &a, sizeof a);
    __builtin_memcpy(reinterpret_cast<char*>(&both) + sizeof a, &b, sizeof b);
    return both;
#endif
}

ES_MPI_INLINE Floats fma32(Floats a, Floats b, float c) { return fma32(a, b, splat(c)); }
ES_MPI_INLINE Floats fma32(float a, Floats b, Floats c) { return fma32(splat(a), b, c); }
ES_MPI_INLINE Floats fma32(Floats a, float b, float c) { return fma32(a, splat(b), splat(c)); }
