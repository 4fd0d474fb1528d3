// Compiles the kernels for GPUs, into an image that device.cpp embeds in the library.
#include <stdint.h>

#include "arithmetic.h"

// Adds the values of all threads of a warp to *sum; all of them take part.
template <class Number>
ES_MPI_INLINE void add_to(Number* sum, Number value) {
    for (int step = 16; step; step /= 2) value += __shfl_down_sync(0xffffffff, value, step);
    if (threadIdx.x % 32 == 0) atomicAdd(sum, value);
}

#include "device_kernels.h"
