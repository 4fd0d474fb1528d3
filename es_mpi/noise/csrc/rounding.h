// binary32 -> 16-bit formats, to nearest even, in integer arithmetic: hardware conversions to bf16 flush denormals.
//
// On plain numbers or vectors; the 16 bits lie in the low half of each word of the result.
#pragma once

#include "arithmetic.h"

template <class Float>
ES_MPI_INLINE auto bf16_bits(Float value) {
    const auto x = as_bits(value);
    const auto nearest = x + 0x7fff + ((x >> 16) & 1);
    return (value == value ? nearest : x | 0x400000) >> 16;  // rounding could carry a NaN into infinity
}

template <class Float>
ES_MPI_INLINE auto bf16_value(Float value) { return as_float(bf16_bits(value) << 16); }

template <class Float>
ES_MPI_INLINE auto fp16_bits(Float value) {
    const auto sign = (as_bits(value) >> 16) & 0x8000;
    const auto x = as_bits(value) & 0x7fffffff;
    const auto normal = (x - (112u << 23) + 0xfff + ((x >> 13) & 1)) >> 13;
    const auto denormal = as_bits(as_float(x) + 0.5f) - 0x3f000000;  // one unit in the last place of 1/2 is 2^-24
    const auto nan = ((x >> 13) & 0x1ff) | 0x7e00;
    auto magnitude = x < (113u << 23) ? denormal : normal;
    magnitude = x < (143u << 23) ? magnitude : x - x + 0x7c00;  // 2^16 and above; 65520 and above round up by themselves
    magnitude = value == value ? magnitude : nan;
    return sign | magnitude;
}
