// binary32 -> 16-bit formats, to nearest even, in integer arithmetic: hardware conversions to bf16 flush denormals.
#pragma once

#include "philox_normal.h"

ES_MPI_INLINE uint16_t bf16_bits(float value) {
    const uint32_t x = as_bits(value);
    const uint32_t rounded = (x + 0x7fff + ((x >> 16) & 1)) >> 16;
    const uint32_t nan = (x >> 16) | 0x40;  // rounding could carry a NaN into infinity
    return uint16_t((x & 0x7fffffff) > 0x7f800000 ? nan : rounded);
}

ES_MPI_INLINE float bf16_value(float value) { return as_float(uint32_t(bf16_bits(value)) << 16); }

ES_MPI_INLINE uint16_t fp16_bits(float value) {
    const uint32_t sign = (as_bits(value) >> 16) & 0x8000;
    const uint32_t x = as_bits(value) & 0x7fffffff;
    const uint32_t normal = (x - (112u << 23) + 0xfff + ((x >> 13) & 1)) >> 13;
    const uint32_t denormal = as_bits(as_float(x) + 0.5f) - as_bits(0.5f);  // one unit in the last place of 1/2 is 2^-24
    const uint32_t infinity = 0x7c00;
    const uint32_t nan = 0x7e00 | ((x >> 13) & 0x1ff);
    uint32_t magnitude = x < (113u << 23) ? denormal : normal;
    magnitude = x >= (143u << 23) ? infinity : magnitude;  // 2^16 and above; 65520 and above round up by themselves
    magnitude = x > 0x7f800000 ? nan : magnitude;
    return uint16_t(sign | magnitude);
}
