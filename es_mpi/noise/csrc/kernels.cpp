// The kernels of one instruction set: this file is compiled once for each (see CMakeLists.txt), with ES_MPI_ISA its name.
//
// Work goes by tiles of 1024 elements of the global index, aligned, so that a call's first and last tile may be partial;
// those go through a buffer. Within a tile, words and normals pass through arrays in the first-level cache.
#include "digest.h"
#include "kernels.h"
#include "lanes.h"
#include "philox_normal.h"
#include "rounding.h"

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "two words share a 64-bit store, low word first");

namespace {

constexpr int TILE = 1024;
constexpr int VECTORS = TILE / 2 / LANES;  // of the radii, and of the angles, of a tile
constexpr int GROUPS = 4;                  // vectors worked on at once

// Radii made before their directions: with 32 registers a few, so that other arithmetic hides the square roots' time; with 16
// all, for then each of the two loops is short enough to keep the processor's queues full of independent work.
constexpr int AT_A_TIME = LANES == 16 ? GROUPS : VECTORS;

struct Tile {
    uint64_t base;    // global index of the tile's first element, a multiple of TILE
    int begin, end;   // the elements of the tile that the call covers
    uint64_t offset;  // where element `begin` lies in the caller's array

    bool whole() const { return end - begin == TILE; }
};

template <class Body>
ES_MPI_INLINE void each_tile(uint64_t g0, uint64_t n, Body body) {
    for (uint64_t done = 0; done < n;) {
        const int begin = int((g0 + done) % TILE);
        const uint64_t count = n - done < uint64_t(TILE - begin) ? n - done : uint64_t(TILE - begin);
        body(Tile{g0 + done - begin, begin, begin + int(count), done});
        done += count;
    }
}

ES_MPI_INLINE void copy(void* to, const void* from, int elements, int size) {
    __builtin_memcpy(to, from, uint64_t(elements) * size);
}

// Bring what the next tile needs into the cache, a little at a time: a processor's own prefetching ends with the page, and
// the page with the tile. Any address may be given.
template <int bytes, int write = 0>
ES_MPI_INLINE void prefetch(const void* from) {
    for (int i = 0; i < bytes; i += 64) __builtin_prefetch(static_cast<const char*>(from) + i, write);
}

// ---- noise of a tile -------------------------------------------------------------------------------------------------

// A Philox block (w0 w1 w2 w3) holds the polar coordinates (w0 w1), (w2 w3) of two pairs of normals. Within a vector of
// 64-bit lanes, a block each, blocks are in the order that makes `zip` of the normals that of the elements: 0 2 1 3 of four.
struct Polar {
    Words radius[VECTORS], angle[VECTORS];
};

// `next`, where given, is what the next tile reads.
ES_MPI_INLINE void words(Polar& polar, uint64_t base, uint64_t seed, uint64_t stream, const float* next = nullptr) {
    constexpr uint64_t LOW = 0xffffffff;
    constexpr int BLOCKS = LANES / 2;  // a vector
    const uint64_t first = base / 4;   // a tile never crosses 2^32 blocks: their high word is constant
    const Wide zero = {};
    Wide low = zero + (first & LOW);
    for (int i = 0; i < BLOCKS; ++i) low[i] += uint64_t(i % 2 * (BLOCKS / 2) + i / 2);
    for (int v = 0; v < VECTORS; v += GROUPS) {
        Block<Wide> c[GROUPS];
        if (next) prefetch<4 * TILE / VECTORS * GROUPS>(next + TILE / VECTORS * v);
        ES_MPI_UNROLL
        for (int g = 0; g < GROUPS; ++g)
            c[g] = {low + uint64_t(g * BLOCKS), zero + (first >> 32), zero + (stream & LOW), zero + (stream >> 32)};
        philox(c, seed);
        ES_MPI_UNROLL
        for (int g = 0; g < GROUPS; ++g) {
            polar.radius[v + g] = pack(c[g].w0, c[g].w2);
            polar.angle[v + g] = pack(c[g].w1, c[g].w3);
        }
        low += uint64_t(GROUPS * BLOCKS);
    }
}

// Calls body(i, z0, z1) for i = 0, 2 * LANES, ... with the normals of vector i / (2 * LANES) of `polar`: the radii of some
// vectors, then their directions.
template <class Body>
ES_MPI_INLINE void box_muller(const Polar& polar, Body body) {
    for (int first = 0; first < VECTORS; first += AT_A_TIME) {
        Floats r[AT_A_TIME];
        for (int v = 0; v < AT_A_TIME; v += GROUPS) radius<GROUPS>(r + v, polar.radius + first + v);
        for (int v = 0; v < AT_A_TIME; ++v) {
            const Direction<Floats> unit = direction<Floats>(polar.angle[first + v]);
            body(2 * LANES * (first + v), r[v] * unit.cos, r[v] * unit.sin);
        }
    }
}

// Calls body(i, z0, z1) with the normals of the elements [base + i, base + i + 2 * LANES), i = 0, 2 * LANES, ...:
// zip_low(z0, z1) and zip_high(z0, z1) give them in order.
template <class Body>
ES_MPI_INLINE void each_normals(uint64_t base, uint64_t seed, uint64_t stream, Body body, const float* next = nullptr) {
    Polar polar;
    words(polar, base, seed, stream, next);
    box_muller(polar, body);
}

ES_MPI_INLINE Floats load(const float* from) {
    Floats values;
    __builtin_memcpy(&values, from, sizeof values);
    return values;
}

template <class Vector>
ES_MPI_INLINE void store(void* to, Vector values) { __builtin_memcpy(to, &values, sizeof values); }

// ---- FILL ------------------------------------------------------------------------------------------------------------

void fill(float* out, uint64_t n, uint64_t g0, uint64_t seed, uint64_t stream) {
    each_tile(g0, n, [=](Tile tile) {
        float edge[TILE];
        float* z = tile.whole() ? out + tile.offset : edge;
        each_normals(tile.base, seed, stream, [=](int i, Floats z0, Floats z1) {
            store(z + i, zip_low(z0, z1));
            store(z + i + LANES, zip_high(z0, z1));
        });
        if (!tile.whole()) copy(out + tile.offset, edge + tile.begin, tile.end - tile.begin, sizeof(float));
    });
}

// ---- PERTURB ---------------------------------------------------------------------------------------------------------

ES_MPI_INLINE Halves bf16_both(Floats low, Floats high) {
#if defined(__AVX512BF16__)
    // The processor's own conversion is right but for denormals, which it takes for zeros.
    constexpr int DENORMAL = 0x20;
    const auto denormal = _mm512_fpclass_ps_mask(__m512(low), DENORMAL) | _mm512_fpclass_ps_mask(__m512(high), DENORMAL);
    if (__builtin_expect(!denormal, 1)) return Halves(_mm512_cvtne2ps_pbh(__m512(high), __m512(low)));
#endif
    return narrow(bf16_bits(low), bf16_bits(high));
}

// Rounds two vectors of values to elements i and following of `out`.
template <Dtype dtype>
ES_MPI_INLINE void cast(char* out, int i, Floats low, Floats high) {
    if constexpr (dtype == BF16) {
        store(out + 2 * i, bf16_both(low, high));
    } else if constexpr (dtype == FP16) {
        store(out + 2 * i, narrow(fp16_bits(low), fp16_bits(high)));
    } else {
        store(out + 4 * i, low);
        store(out + 4 * (i + LANES), high);
    }
}

// out = round(fma(sigma, eps, theta)). A sigma of 0 is a plain cast: no noise is made, and -0 stays -0.
template <Dtype dtype>
ES_MPI_INLINE void perturb_tile(char* out, const float* theta, uint64_t base, uint64_t seed, uint64_t stream, float sigma) {
    constexpr int size = dtype == FP32 ? 4 : 2;
    if (sigma == 0.0f) {
        for (int i = 0; i < TILE; i += 2 * LANES) cast<dtype>(out, i, load(theta + i), load(theta + i + LANES));
        return;
    }
    const auto round = [=](int i, Floats z0, Floats z1) {
        prefetch<2 * LANES * size, 1>(out + size * (TILE + i));
        const Floats low = fma32(sigma, zip_low(z0, z1), load(theta + i));
        const Floats high = fma32(sigma, zip_high(z0, z1), load(theta + i + LANES));
        cast<dtype>(out, i, low, high);
    };
    each_normals(base, seed, stream, round, theta + TILE);
}

template <Dtype dtype>
void perturb_as(void* out, const float* master, uint64_t n, uint64_t g0, uint64_t seed, uint64_t stream, float sigma) {
    constexpr int size = dtype == FP32 ? 4 : 2;
    each_tile(g0, n, [=](Tile tile) {
        const int count = tile.end - tile.begin;
        const float* theta = master + tile.offset;
        char* to = static_cast<char*>(out) + tile.offset * size;
        if (tile.whole()) return perturb_tile<dtype>(to, theta, tile.base, seed, stream, sigma);
        float theta_edge[TILE] = {};
        char out_edge[TILE * size];
        copy(theta_edge + tile.begin, theta, count, sizeof(float));
        perturb_tile<dtype>(out_edge, theta_edge, tile.base, seed, stream, sigma);
        copy(to, out_edge + tile.begin * size, count, size);
    });
}

void perturb(void* out, Dtype dtype, const float* master, uint64_t n, uint64_t g0, uint64_t seed, uint64_t stream,
             float sigma) {
    constexpr decltype(&perturb_as<FP32>) as[] = {perturb_as<FP32>, perturb_as<BF16>, perturb_as<FP16>};
    as[dtype](out, master, n, g0, seed, stream, sigma);
}

// ---- UPDATE ----------------------------------------------------------------------------------------------------------

// theta += a; sums += (sum a^2, sum d^2, sum a d) with d the move of the bf16 copy. The sums keep 16 explicit lanes, so that
// their order, and with it their last digits, is the same for every instruction set.
ES_MPI_INLINE void apply(float* __restrict theta, const float* __restrict a, double* sums) {
    constexpr int WIDTH = 16;
    float lane[3][WIDTH] = {};
    for (int i = 0; i < TILE; i += WIDTH)
        for (int k = 0; k < WIDTH; ++k) {
            const float before = theta[i + k], step = a[i + k];
            const float after = step == 0.0f ? before : before + step;  // -0 + 0 would turn into +0
            const float d = bf16_value(after) - bf16_value(before);
            theta[i + k] = after;
            lane[0][k] += step * step;
            lane[1][k] += d * d;
            lane[2][k] += step * d;
        }
    for (int s = 0; s < 3; ++s)
        for (int k = 0; k < WIDTH; ++k) sums[s] += double(lane[s][k]);
}

void update(float* master, uint64_t n, uint64_t g0, const uint64_t* seeds, const float* coefficients, uint64_t count,
            uint64_t stream, double* sums) {
    each_tile(g0, n, [=](Tile tile) {
        alignas(64) float a[TILE] = {};
        for (uint64_t i = 0; i < count; ++i)
            each_normals(tile.base, seeds[i], stream, [=, &a](int j, Floats z0, Floats z1) {
                store(a + j, fma32(coefficients[i], z0, load(a + j)));
                store(a + j + LANES, fma32(coefficients[i], z1, load(a + j + LANES)));
            });
        for (int j = 0; j < TILE; j += 2 * LANES) {
            const Floats z0 = load(a + j), z1 = load(a + j + LANES);
            store(a + j, zip_low(z0, z1));
            store(a + j + LANES, zip_high(z0, z1));
        }
        float* theta = master + tile.offset;
        if (tile.whole()) return apply(theta, a, sums);
        float theta_edge[TILE] = {}, a_edge[TILE] = {};
        copy(theta_edge + tile.begin, theta, tile.end - tile.begin, sizeof(float));
        copy(a_edge + tile.begin, a + tile.begin, tile.end - tile.begin, sizeof(float));
        apply(theta_edge, a_edge, sums);
        copy(theta, theta_edge + tile.begin, tile.end - tile.begin, sizeof(float));
    });
}

// ---- WORDS TO NORMALS ------------------------------------------------------------------------------------------------

// The normals of given words, for tests of every word there is: n pairs, a multiple of TILE / 2.
void normals_of(float* z0, float* z1, const uint32_t* radii, const uint32_t* angles, uint64_t n) {
    for (uint64_t done = 0; done < n; done += TILE / 2) {
        Polar polar;
        __builtin_memcpy(polar.radius, radii + done, sizeof polar.radius);
        __builtin_memcpy(polar.angle, angles + done, sizeof polar.angle);
        box_muller(polar, [=](int i, Floats first, Floats second) {
            store(z0 + done + i / 2, first);
            store(z1 + done + i / 2, second);
        });
    }
}

// ---- PHILOX ----------------------------------------------------------------------------------------------------------

// Exclusive or of the words of all tiles touched, by pairs: what noise costs at least, for `es-mpi bench noise`.
uint64_t philox(uint64_t n, uint64_t g0, uint64_t seed, uint64_t stream) {
    Wide sum = {};
    each_tile(g0, n, [=, &sum](Tile tile) {
        Polar polar;
        words(polar, tile.base, seed, stream);
        for (int v = 0; v < VECTORS; ++v) sum ^= Wide(polar.radius[v]) ^ Wide(polar.angle[v]);
    });
    for (int i = 1; i < LANES / 2; ++i) sum[0] ^= sum[i];
    return sum[0];
}

// ---- DIGEST ----------------------------------------------------------------------------------------------------------

// The sum of all terms mod 2^64.
uint64_t digest(const float* master, uint64_t n, uint64_t g0) {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < n; ++i) sum += digest_term(master[i], g0 + i);
    return sum;
}

}  // namespace

#define ES_MPI_TABLE_(isa) es_mpi_kernels_##isa
#define ES_MPI_TABLE(isa) ES_MPI_TABLE_(isa)
#define ES_MPI_NAME_(isa) #isa
#define ES_MPI_NAME(isa) ES_MPI_NAME_(isa)

extern const Kernels ES_MPI_TABLE(ES_MPI_ISA) = {ES_MPI_NAME(ES_MPI_ISA), fill, perturb, update, normals_of, philox, digest};
