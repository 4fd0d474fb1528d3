// The checksum of weights: a sum over elements, so it does not depend on how they are divided.
#pragma once

#include "arithmetic.h"

// The finaliser of splitmix64 (Steele et al., OOPSLA'14): a bijection of 64-bit words.
ES_MPI_INLINE uint64_t mix64(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

// For a fixed g a bijection of the bits, so any change of one element changes the sum.
ES_MPI_INLINE uint64_t digest_term(float theta, uint64_t g) { return mix64(as_bits(theta) ^ ((g + 1) * 0x9E3779B97F4A7C15u)); }
