// The kernels of one instruction set: this file is compiled once for each (see CMakeLists.txt), with ES_MPI_ISA its name.
//
// Work goes by tiles of 1024 elements of the global index, aligned, so that a call's first and last tile may be partial;
// those go through a buffer. Within a tile, arrays of words and of normals live in the first-level cache, and plain loops
// over them vectorise.
#include "kernels.h"
#include "lanes.h"
#include "philox_normal.h"
#include "rounding.h"

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "two words share a 64-bit store, low word first");

namespace {

constexpr int TILE = 1024;
constexpr int BLOCKS = TILE / 4;
constexpr int PAIRS = TILE / 2;

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

// ---- noise of a tile -------------------------------------------------------------------------------------------------

// Element 2i is r cos, element 2i + 1 is r sin of pair i; a Philox block (w0 w1 w2 w3) holds the pairs (w0 w1), (w2 w3).
struct PairWords {
    typedef uint32_t __attribute__((may_alias)) Word;
    alignas(64) Word radius[PAIRS];
    alignas(64) Word angle[PAIRS];
};

ES_MPI_INLINE void generate(PairWords& words, uint64_t base, uint64_t seed, uint64_t stream) {
    constexpr int GROUPS = 4;
    constexpr uint64_t LOW = 0xffffffff;
    const uint64_t block = base / 4;  // a tile never crosses 2^32 blocks: its high word is constant
    const Lanes zero = {};
    Lanes iota = {};
    for (int i = 0; i < lanes; ++i) iota[i] = uint64_t(i);
    for (int j = 0; j < BLOCKS; j += lanes * GROUPS) {
        Words<Lanes> c[GROUPS];
#pragma GCC unroll 8
        for (int g = 0; g < GROUPS; ++g)
            c[g] = {iota + ((block & LOW) + uint64_t(j + g * lanes)), zero + (block >> 32), zero + (stream & LOW),
                    zero + (stream >> 32)};
        philox(c, Key(seed));
#pragma GCC unroll 8
        for (int g = 0; g < GROUPS; ++g) {
            const Lanes radius = (c[g].w0 & LOW) | (c[g].w2 << 32);
            const Lanes angle = (c[g].w1 & LOW) | (c[g].w3 << 32);
            __builtin_memcpy(words.radius + 2 * (j + g * lanes), &radius, sizeof radius);
            __builtin_memcpy(words.angle + 2 * (j + g * lanes), &angle, sizeof angle);
        }
    }
}

// ---- FILL ------------------------------------------------------------------------------------------------------------

void fill(float* out, uint64_t n, uint64_t g0, uint64_t seed, uint64_t stream) {
    each_tile(g0, n, [=](Tile tile) {
        PairWords words;
        generate(words, tile.base, seed, stream);
        float edge[TILE];
        float* __restrict z = tile.whole() ? out + tile.offset : edge;
        for (int i = 0; i < PAIRS; ++i) {
            const Normals pair = box_muller(words.radius[i], words.angle[i]);
            z[2 * i] = pair.z0;
            z[2 * i + 1] = pair.z1;
        }
        if (!tile.whole()) copy(out + tile.offset, edge + tile.begin, tile.end - tile.begin, sizeof(float));
    });
}

// ---- PERTURB ---------------------------------------------------------------------------------------------------------

// noisy = fma(sigma, eps, theta). A sigma of 0 is a plain cast: no noise is made, and -0 stays -0.
ES_MPI_INLINE void add_noise(float* __restrict noisy, const float* __restrict theta, uint64_t base, uint64_t seed,
                             uint64_t stream, float sigma) {
    PairWords words;
    generate(words, base, seed, stream);
    for (int i = 0; i < PAIRS; ++i) {
        const Normals pair = box_muller(words.radius[i], words.angle[i]);
        noisy[2 * i] = fma32(sigma, pair.z0, theta[2 * i]);
        noisy[2 * i + 1] = fma32(sigma, pair.z1, theta[2 * i + 1]);
    }
}

ES_MPI_INLINE void cast(void* out, Dtype dtype, const float* __restrict values) {
    uint16_t* __restrict half = static_cast<uint16_t*>(out);
    if (dtype == BF16)
        for (int i = 0; i < TILE; ++i) half[i] = bf16_bits(values[i]);
    else if (dtype == FP16)
        for (int i = 0; i < TILE; ++i) half[i] = fp16_bits(values[i]);
    else
        copy(out, values, TILE, sizeof(float));
}

void perturb(void* out, Dtype dtype, const float* master, uint64_t n, uint64_t g0, uint64_t seed, uint64_t stream,
             float sigma) {
    const int size = dtype == FP32 ? 4 : 2;
    each_tile(g0, n, [=](Tile tile) {
        const int count = tile.end - tile.begin;
        float theta_edge[TILE] = {}, out_edge[TILE], noisy[TILE];
        const float* theta = master + tile.offset;
        char* to = static_cast<char*>(out) + tile.offset * size;
        if (!tile.whole()) {
            copy(theta_edge + tile.begin, theta, count, sizeof(float));
            theta = theta_edge;
        }
        if (sigma != 0.0f) {
            add_noise(noisy, theta, tile.base, seed, stream, sigma);
            theta = noisy;
        }
        cast(tile.whole() ? to : reinterpret_cast<char*>(out_edge), dtype, theta);
        if (!tile.whole()) copy(to, reinterpret_cast<char*>(out_edge) + tile.begin * size, count, size);
    });
}

// ---- UPDATE ----------------------------------------------------------------------------------------------------------

struct Increment {
    alignas(64) float even[PAIRS];
    alignas(64) float odd[PAIRS];
};

ES_MPI_INLINE void accumulate(Increment& a, uint64_t base, uint64_t seed, uint64_t stream, float coefficient) {
    PairWords words;
    generate(words, base, seed, stream);
    for (int i = 0; i < PAIRS; ++i) {
        const Normals pair = box_muller(words.radius[i], words.angle[i]);
        a.even[i] = fma32(coefficient, pair.z0, a.even[i]);
        a.odd[i] = fma32(coefficient, pair.z1, a.odd[i]);
    }
}

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
        Increment sum = {};
        for (uint64_t i = 0; i < count; ++i) accumulate(sum, tile.base, seeds[i], stream, coefficients[i]);
        float a[TILE];
        for (int i = 0; i < PAIRS; ++i) {
            a[2 * i] = sum.even[i];
            a[2 * i + 1] = sum.odd[i];
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

// ---- DIGEST ----------------------------------------------------------------------------------------------------------

// The finaliser of splitmix64 (Steele et al., OOPSLA'14): a bijection of 64-bit words.
ES_MPI_INLINE uint64_t mix64(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

// sum over g of mix64(bits(theta_g) ^ (g + 1) GAMMA) mod 2^64. For a fixed g the term is a bijection of the bits, so any
// change of one element changes the sum; a sum does not depend on how the elements are divided.
uint64_t digest(const float* master, uint64_t n, uint64_t g0) {
    constexpr uint64_t GAMMA = 0x9E3779B97F4A7C15u;
    uint64_t sum = 0, place = (g0 + 1) * GAMMA;
    for (uint64_t i = 0; i < n; ++i, place += GAMMA) sum += mix64(as_bits(master[i]) ^ place);
    return sum;
}

}  // namespace

#define ES_MPI_TABLE_(isa) es_mpi_kernels_##isa
#define ES_MPI_TABLE(isa) ES_MPI_TABLE_(isa)
#define ES_MPI_NAME_(isa) #isa
#define ES_MPI_NAME(isa) ES_MPI_NAME_(isa)

extern const Kernels ES_MPI_TABLE(ES_MPI_ISA) = {ES_MPI_NAME(ES_MPI_ISA), fill, perturb, update, digest};
