// The noise of one element: Philox4x32-10 words (Salmon et al., SC'11) and their Box-Muller normals.
//
// Only IEEE binary32 operations rounded to nearest even: int -> float, add, mul, fma, sqrt. No libm, no table, no branch,
// and no product feeds an addition except through fma, so every compiler and device gives the same bits.
// es_mpi/noise/reference.py is the readable specification of the same values.
//
// This file and all that include it for one instruction set stay free of the C++ standard library: its templates would
// become weak symbols that the linker may pick for the baseline code, an illegal instruction on an older CPU.
#pragma once

#include <stdint.h>

#define ES_MPI_INLINE static inline __attribute__((always_inline))

// ---- words -----------------------------------------------------------------------------------------------------------

// Four 32-bit words a block, each in the low half of a 64-bit lane. The high halves hold garbage between the rounds: the
// widening product reads only low halves, so they never need to be cleared.
template <class Lane>
struct Words {
    Lane w0, w1, w2, w3;
};

struct Key {
    uint32_t k0, k1;

    explicit Key(uint64_t seed) : k0(uint32_t(seed)), k1(uint32_t(seed >> 32)) {}
};

template <class Lane>
ES_MPI_INLINE void philox_round(Words<Lane>& c, Key key) {
    const Lane p0 = widening_product(c.w0, 0xD2511F53u);
    const Lane p1 = widening_product(c.w2, 0xCD9E8D57u);
    c = {(p1 >> 32) ^ c.w1 ^ uint64_t(key.k0), p1, (p0 >> 32) ^ c.w3 ^ uint64_t(key.k1), p0};
}

// Ten rounds on several independent groups at once, breadth first: one group alone waits for its own multiplications.
template <class Lane, int groups>
ES_MPI_INLINE void philox(Words<Lane> (&c)[groups], Key key) {
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round) {
#pragma GCC unroll 8
        for (int g = 0; g < groups; ++g) philox_round(c[g], key);
        key.k0 += 0x9E3779B9u;
        key.k1 += 0xBB67AE85u;
    }
}

// ---- normals ---------------------------------------------------------------------------------------------------------

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

ES_MPI_INLINE float fma32(float a, float b, float c) { return __builtin_fmaf(a, b, c); }

// sqrt(-2 ln u), u = (word + 1/2) 2^-32 in (0, 1): u = m 2^e with m in [1/2, 1), -2 ln m = y P(y) for y = m - 1.
ES_MPI_INLINE float radius(uint32_t word) {
    const uint32_t u = as_bits(fma32(float(word), 0x1.fffffep-33f, 0x1p-33f));
    const float e = float(int32_t(u >> 23) - 126);
    const float y = as_float((u & 0x7fffff) | 0x3f000000) - 1.0f;
    float p = 0x1.2f57aap+1f;
    p = fma32(p, y, 0x1.14dfdp+1f);
    p = fma32(p, y, 0x1.922402p+0f);
    p = fma32(p, y, -0x1.3771b2p-4f);
    p = fma32(p, y, 0x1.16c8d8p-1f);
    p = fma32(p, y, -0x1.53d3ccp-1f);
    p = fma32(p, y, 0x1.0004cap+0f);
    p = fma32(p, y, -0x1.fffffcp+0f);
    return __builtin_sqrtf(fma32(y, p, e * -0x1.62e43p+0f));
}

struct Normals {
    float z0, z1;
};

// r (cos, sin) of the angle pi x: 23 bits of the word give x in [-1/2, 1/2), its top bit the half circle.
ES_MPI_INLINE Normals box_muller(uint32_t radius_word, uint32_t angle_word) {
    const float r = radius(radius_word);
    const float x = as_float((angle_word & 0x7fffff) | 0x3f800000) - 1.5f;
    const float t = x * x;
    float s = -0x1.1bf948p-1f;
    s = fma32(s, t, 0x1.455cf2p+1f);
    s = fma32(s, t, -0x1.4ab278p+2f);
    s = fma32(s, t, 0x1.921f5cp+1f);
    s = x * s;
    float c = 0x1.c1f066p-3f;
    c = fma32(c, t, -0x1.54f61ap+0f);
    c = fma32(c, t, 0x1.03bd06p+2f);
    c = fma32(c, t, -0x1.3bd3a6p+2f);
    c = fma32(c, t, 0x1.fffffep-1f);
    c = as_float(as_bits(c) ^ (angle_word & 0x80000000u));
    return {r * c, r * s};
}
