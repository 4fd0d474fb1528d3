// The noise of one element: Philox4x32-10 words (Salmon et al., SC'11) and their Box-Muller normals.
//
// Only the operations of arithmetic.h: no libm, no table, no branch, and no product feeds an addition except through fma,
// so every compiler and device gives the same bits. Lane types are plain numbers (CUDA) or vectors of them (lanes.h).
// es_mpi/noise/reference.py is the readable specification of the same values.
//
// This file and all that include it for one instruction set stay free of the C++ standard library: its templates would
// become weak symbols that the linker may pick for the baseline code, an illegal instruction on an older CPU.
#pragma once

#include "arithmetic.h"

// ---- words -----------------------------------------------------------------------------------------------------------

// Four 32-bit words a block, each in the low half of a 64-bit lane. The high halves hold garbage between the rounds: the
// widening product reads only low halves, so they never need to be cleared.
template <class Lane>
struct Block {
    Lane w0, w1, w2, w3;
};

struct Key {
    uint32_t k0, k1;
};

template <class Lane>
ES_MPI_INLINE void philox_round(Block<Lane>& c, Key key) {
    const Lane p0 = widening_product(c.w0, 0xD2511F53u);
    const Lane p1 = widening_product(c.w2, 0xCD9E8D57u);
    c = {high_word(p1) ^ (c.w1 ^ uint64_t(key.k0)), p1, high_word(p0) ^ (c.w3 ^ uint64_t(key.k1)), p0};
}

// Ten rounds on several independent groups at once, breadth first: one group alone waits for its own multiplications.
template <class Lane, int groups>
ES_MPI_INLINE void philox(Block<Lane> (&c)[groups], uint64_t seed) {
    Key key = {uint32_t(seed), uint32_t(seed >> 32)};
    ES_MPI_UNROLL
    for (int round = 0; round < 10; ++round) {
        ES_MPI_UNROLL
        for (int g = 0; g < groups; ++g) philox_round(c[g], key);
        key.k0 += 0x9E3779B9u;
        key.k1 += 0xBB67AE85u;
    }
}

// ---- normals ---------------------------------------------------------------------------------------------------------

// Box-Muller: a block's words w0 and w1 are the radius and the angle of (z0, z1), w2 and w3 those of (z2, z3).

// r = sqrt(-2 ln u), u = (word + 1/2) 2^-32 in (0, 1): u = m 2^e with m in [1/2, 1), -2 ln m = y P(y) for y = m - 1.
// Breadth first like philox.
template <int groups, class Float, class Word>
ES_MPI_INLINE void radius(Float* r, const Word* word) {
    constexpr float P[] = {0x1.2f57aap+1f,  0x1.14dfdp+1f,   0x1.922402p+0f, -0x1.3771b2p-4f,
                           0x1.16c8d8p-1f, -0x1.53d3ccp-1f, 0x1.0004cap+0f, -0x1.fffffcp+0f};
    Float y[groups], e[groups], p[groups];
    ES_MPI_UNROLL
    for (int g = 0; g < groups; ++g) {
        const Word u = as_bits(fma32(unsigned_to_float(word[g]), 0x1.fffffep-33f, 0x1p-33f));
        e[g] = signed_to_float((u >> 23) - 126);
        y[g] = as_float((u & 0x7fffff) | 0x3f000000) - 1.0f;
        p[g] = fma32(y[g], P[0], P[1]);
    }
    ES_MPI_UNROLL
    for (int k = 2; k < 8; ++k) {
        ES_MPI_UNROLL
        for (int g = 0; g < groups; ++g) p[g] = fma32(p[g], y[g], P[k]);
    }
    ES_MPI_UNROLL
    for (int g = 0; g < groups; ++g) r[g] = sqrt32(fma32(y[g], p[g], e[g] * -0x1.62e43p+0f));
}

template <class Float>
struct Direction {
    Float cos, sin;
};

// The angle pi x: 23 bits of the word give x in [-1/2, 1/2), its top bit the half circle.
template <class Float, class Word>
ES_MPI_INLINE Direction<Float> direction(Word word) {
    const Float x = as_float((word & 0x7fffff) | 0x3f800000) - 1.5f;
    const Float t = x * x;
    Float s = fma32(t, -0x1.1bf948p-1f, 0x1.455cf2p+1f);
    s = fma32(s, t, -0x1.4ab278p+2f);
    s = fma32(s, t, 0x1.921f5cp+1f);
    Float c = fma32(t, 0x1.c1f066p-3f, -0x1.54f61ap+0f);
    c = fma32(c, t, 0x1.03bd06p+2f);
    c = fma32(c, t, -0x1.3bd3a6p+2f);
    c = fma32(c, t, 0x1.fffffep-1f);
    return {as_float(as_bits(c) ^ (word & 0x80000000u)), x * s};
}
