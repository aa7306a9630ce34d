// The products of gemm.h with factors rounded to bfloat16 and sums in float32, on the tiles of AMX: 16 times as many
// multiplications a cycle as with float32. Used where torch.set_float32_matmul_precision("medium") allows it.
#pragma once

#include <crvnn/common.h>

#if defined(__AVX512F__) && defined(__linux__) && defined(__GNUC__)
#define CRVNN_HAS_AMX 1
#include <ATen/Context.h>
#include <ATen/cpu/Utils.h>
#include <immintrin.h>
#else
#define CRVNN_HAS_AMX 0
#endif

namespace crvnn {

#if CRVNN_HAS_AMX
#define CRVNN_AMX __attribute__((target("amx-tile,amx-bf16,avx512bf16,avx512vl,avx512bw")))

constexpr std::int64_t BF16_ROWS = 32, BF16_COLUMNS = 32, BF16_DEPTH = 32;  // of a block: 2 x 2 tiles of 16 x 16 sums

inline bool processor_has_amx() {
  static const bool has = [] {
    const auto can = at::cpu::get_cpu_capabilities();
    const auto told = [&](const char* name) { return can.count(name) && can.at(name).toBool(); };
    return told("amx_tile") && told("amx_bf16") && told("avx512_bf16") && at::cpu::init_amx();
  }();
  return has;
}

// Returns whether new factors are to be in bfloat16.
inline bool rounds_to_bf16() {
  return at::globalContext().float32MatmulPrecision() == at::Float32MatmulPrecision::MEDIUM && processor_has_amx();
}

inline std::int64_t whole_depth(std::int64_t k) { return (k + BF16_DEPTH - 1) / BF16_DEPTH * BF16_DEPTH; }

// Row p of two matrices' rows as pairs, as the tiles take them: bfloat16 of even[j] below bfloat16 of odd[j]. Either may be
// missing, for zeros.
CRVNN_AMX inline __m512i pairs_of(const float* even, const float* odd, __mmask16 columns) {
  const auto rounded = [columns](const float* row) CRVNN_AMX {
    const __m512 values = row ? _mm512_maskz_loadu_ps(columns, row) : _mm512_setzero_ps();
    return _mm512_cvtepu16_epi32(reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(values)));
  };
  return _mm512_or_si512(rounded(even), _mm512_slli_epi32(rounded(odd), 16));
}

inline __mmask16 first_lanes(std::int64_t count) {
  return count >= 16 ? __mmask16(0xffff) : __mmask16((1u << std::max<std::int64_t>(0, count)) - 1);
}

// Writes rows 0 ... k of columns first ... first + count of a row-major matrix as pairs [whole_depth(k) / 2, wide], zeros
// behind the last; wide is a multiple of 16.
CRVNN_AMX inline void pack_pairs(const float* matrix, std::int64_t stride, std::int64_t k, std::int64_t first,
                                 std::int64_t count, std::int64_t wide, std::int32_t* pairs) {
  for (std::int64_t p = 0; p < whole_depth(k); p += 2) {
    const float* row = matrix + p * stride + first;
    for (std::int64_t j = 0; j < wide; j += 16) {
      const __m512i packed =
          pairs_of(p < k ? row + j : nullptr, p + 1 < k ? row + stride + j : nullptr, first_lanes(count - j));
      _mm512_storeu_si512(pairs + p / 2 * wide + j, packed);
    }
  }
}

// Returns a matrix [k, n], any strides, as panels of pairs [panels, whole_depth(k) / 2, BF16_COLUMNS].
inline Tensor bf16_panels(const Tensor& matrix) {
  const Tensor rows = matrix.stride(1) == 1 ? matrix : matrix.contiguous();
  const std::int64_t k = rows.size(0), n = rows.size(1), panels = (n + BF16_COLUMNS - 1) / BF16_COLUMNS;
  const Tensor values = SpareBuffers::take({panels, whole_depth(k) / 2, BF16_COLUMNS}, rows.options().dtype(at::kInt));
  for (std::int64_t j = 0; j < panels; ++j) {
    pack_pairs(data(rows), rows.stride(0), k, BF16_COLUMNS * j, n - BF16_COLUMNS * j, BF16_COLUMNS,
               values.mutable_data_ptr<std::int32_t>() + j * whole_depth(k) / 2 * BF16_COLUMNS);
  }
  return values;
}

// Tiles 0 to 3 are sums, 4 and 5 rows of the matrix on the left, 6 and 7 columns of that on the right.
struct Tiles {
  alignas(64) std::uint8_t layout[64] = {};
  CRVNN_AMX Tiles() {
    layout[0] = 1;
    for (int tile = 0; tile < 8; ++tile) {
      layout[16 + 2 * tile] = 64;  // bytes of a row
      layout[48 + tile] = 16;      // rows
    }
    _tile_loadconfig(layout);
  }
  CRVNN_AMX ~Tiles() { _tile_release(); }
};

// c [rows, width] = a b, or c += a b if add: a are rows of bfloat16 [BF16_ROWS, depth], b is a panel of pairs.
CRVNN_AMX inline void bf16_block(const std::uint16_t* a, std::int64_t depth, const std::int32_t* b, float* c,
                                 std::int64_t c_stride, std::int64_t rows, std::int64_t width, bool add) {
  alignas(64) float sums[BF16_ROWS * BF16_COLUMNS];
  const bool whole = rows == BF16_ROWS && width == BF16_COLUMNS, two = rows > 16;
  const std::int64_t bytes = 4 * c_stride;
  if (whole && add) {
    _tile_loadd(0, c, bytes);
    _tile_loadd(1, c + 16, bytes);
    _tile_loadd(2, c + 16 * c_stride, bytes);
    _tile_loadd(3, c + 16 * c_stride + 16, bytes);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  for (std::int64_t p = 0; p < depth; p += BF16_DEPTH) {
    const std::int32_t* pairs = b + p / 2 * BF16_COLUMNS;
    _tile_loadd(6, pairs, 4 * BF16_COLUMNS);
    _tile_loadd(7, pairs + 16, 4 * BF16_COLUMNS);
    _tile_loadd(4, a + p, 2 * depth);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    if (!two) continue;
    _tile_loadd(5, a + 16 * depth + p, 2 * depth);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  float* to = whole ? c : sums;
  const std::int64_t step = whole ? c_stride : BF16_COLUMNS;
  _tile_stored(0, to, 4 * step);
  _tile_stored(1, to + 16, 4 * step);
  if (two) {
    _tile_stored(2, to + 16 * step, 4 * step);
    _tile_stored(3, to + 16 * step + 16, 4 * step);
  }
  if (whole) return;
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < width; j += 16) {
      const __mmask16 columns = first_lanes(width - j);
      __m512 sum = _mm512_load_ps(sums + i * BF16_COLUMNS + j);
      if (add) sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(columns, c + i * c_stride + j));
      _mm512_mask_storeu_ps(c + i * c_stride + j, columns, sum);
    }
  }
}

// Memory of a thread for rows that it has rounded; it grows as needed.
inline std::uint16_t* rounded_rows(std::int64_t count) {
  thread_local std::vector<std::uint16_t> memory;
  if (static_cast<std::int64_t>(memory.size()) < count + 32) memory.resize(count + 32);
  const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
  return memory.data() + (64 - address % 64) % 64 / 2;
}

// out [m, n] = a b, or out += a b if add; a is [m, k] with rows `stride` apart, b its panels of pairs.
CRVNN_AMX inline void bf16_rows_product(const float* a, std::int64_t stride, std::int64_t m, std::int64_t k,
                                        const std::int32_t* panels, std::int64_t n, float* out, bool add) {
  const Tiles tiles;
  const std::int64_t depth = whole_depth(k);
  std::uint16_t* rows = rounded_rows(BF16_ROWS * depth);
  for (std::int64_t i = 0; i < m; i += BF16_ROWS) {
    const std::int64_t count = std::min(BF16_ROWS, m - i);
    for (std::int64_t r = 0; r < (count > 16 ? BF16_ROWS : 16); ++r) {
      for (std::int64_t p = 0; p < depth; p += 16) {
        const __mmask16 lanes = r < count ? first_lanes(k - p) : __mmask16(0);
        const __m512 values = _mm512_maskz_loadu_ps(lanes, a + (i + r) * stride + p);
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(rows + r * depth + p),
                            reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(values)));
      }
    }
    for (std::int64_t j = 0; j < n; j += BF16_COLUMNS) {
      bf16_block(rows, depth, panels + j * depth / 2, out + i * n + j, n, count, std::min(BF16_COLUMNS, n - j), add);
    }
  }
}

// Rows first ... last of out [n, l] = a^T b, or of out += a^T b if add: a [m, n] as pairs [whole_depth(m) / 2, wide], b
// [m, l] as panels of pairs.
CRVNN_AMX inline void bf16_transposed_rows(const std::int32_t* pairs, std::int64_t wide, std::int64_t m,
                                           const std::int32_t* panels, std::int64_t first, std::int64_t last,
                                           std::int64_t l, float* out, bool add) {
  const Tiles tiles;
  const std::int64_t depth = whole_depth(m);
  std::uint16_t* rows = rounded_rows(BF16_ROWS * depth);
  const __m512i lanes = _mm512_mullo_epi32(_mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0),
                                           _mm512_set1_epi32(static_cast<int>(wide)));
  for (std::int64_t i = first; i < last; i += BF16_ROWS) {
    const std::int64_t count = std::min(BF16_ROWS, last - i);
    for (std::int64_t r = 0; r < count; ++r) {  // a transposed: a row of pairs is a column of them
      for (std::int64_t p = 0; p < depth; p += BF16_DEPTH) {
        _mm512_storeu_si512(rows + r * depth + p, _mm512_i32gather_epi32(lanes, pairs + p / 2 * wide + i + r, 4));
      }
    }
    for (std::int64_t j = 0; j < l; j += BF16_COLUMNS) {
      bf16_block(rows, depth, panels + j * depth / 2, out + i * l + j, l, count, std::min(BF16_COLUMNS, l - j), add);
    }
  }
}

#undef CRVNN_AMX
#else
inline bool rounds_to_bf16() { return false; }
#endif

}  // namespace crvnn
