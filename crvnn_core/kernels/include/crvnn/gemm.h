// Matrix products of many rows with one small matrix (weights), and of two tall matrices (weight gradients).
//
// With AVX-512 they are computed here. The matrix on the right is packed once, into panels of 32 columns, and used for
// many products; a tile of 14 rows by 32 columns is summed in registers. BLAS packs both matrices in every call, which
// costs a tenth of the time at these sizes. Every element is summed in the order of k, so that neither the number of
// rows nor that of threads changes its bits. Elsewhere torch computes them.
#pragma once

#include <crvnn/common.h>
#include <crvnn/gemm_bf16.h>

namespace crvnn {

#ifdef __AVX512F__
constexpr bool OWN_GEMM = true;
#else
constexpr bool OWN_GEMM = false;
#endif

constexpr std::int64_t LANES = 16, PANEL = 2 * LANES;  // floats in a vector register, columns of a panel
constexpr int TILE_ROWS = 14;                          // with two registers each, and two for the panel: 30 of 32
constexpr std::int64_t GEMM_DEPTH = 256;               // rows of a tall matrix that are packed at a time
using Lanes = float __attribute__((vector_size(4 * LANES), aligned(4)));

// c [rows, width] = a b, or c += a b if add: element (i, p) of a [rows, k] is a[i stride + p], or a[i + p stride] if
// by_columns; b is a panel [k, PANEL].
template <int rows, bool by_columns>
void tile(std::int64_t k, const float* a, std::int64_t stride, const float* b, float* c, std::int64_t c_stride,
          std::int64_t width, bool add) {
  Lanes sums[rows][2] = {};
  for (std::int64_t p = 0; p < k; ++p) {
    const Lanes* row = reinterpret_cast<const Lanes*>(b + p * PANEL);
    const Lanes first = row[0], second = row[1];
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i) {
      const float x = by_columns ? a[p * stride + i] : a[i * stride + p];
      sums[i][0] += x * first;
      sums[i][1] += x * second;
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i) {
    float* out = c + i * c_stride;
    if (width == PANEL) {
      Lanes* to = reinterpret_cast<Lanes*>(out);
      to[0] = add ? to[0] + sums[i][0] : sums[i][0];
      to[1] = add ? to[1] + sums[i][1] : sums[i][1];
    } else {
      for (std::int64_t j = 0; j < width; ++j) {
        const float sum = sums[i][j / LANES][j % LANES];
        out[j] = add ? out[j] + sum : sum;
      }
    }
  }
}

// The same for at most TILE_ROWS rows.
template <bool by_columns, int rows = TILE_ROWS>
void any_tile(std::int64_t count, std::int64_t k, const float* a, std::int64_t stride, const float* b, float* c,
              std::int64_t c_stride, std::int64_t width, bool add) {
  if constexpr (rows > 0) {
    if (count == rows) return tile<rows, by_columns>(k, a, stride, b, c, c_stride, width, add);
    any_tile<by_columns, rows - 1>(count, k, a, stride, b, c, c_stride, width, add);
  }
}

inline std::int64_t panels_of(std::int64_t columns) { return (columns + PANEL - 1) / PANEL; }

// Writes columns first ... first + PANEL of a matrix [k, n], any strides, to a panel [k, PANEL]; zeros behind the last.
inline void pack_panel(const float* matrix, std::int64_t row, std::int64_t column, std::int64_t k, std::int64_t first,
                       std::int64_t n, float* panel) {
  const std::int64_t width = std::min(PANEL, n - first);
  if (width == PANEL && row == 1) {  // transposed: whole cache lines of each column
    for (std::int64_t p = 0; p < k; p += LANES) {
      const std::int64_t count = std::min(LANES, k - p);
      for (std::int64_t j = 0; j < PANEL; ++j) {
        const float* from = matrix + p + (first + j) * column;
        for (std::int64_t q = 0; q < count; ++q) panel[(p + q) * PANEL + j] = from[q];
      }
    }
    return;
  }
  for (std::int64_t p = 0; p < k; ++p) {
    const float* from = matrix + p * row + first * column;
    float* to = panel + p * PANEL;
    if (width == PANEL && column == 1) {
      for (std::int64_t j = 0; j < PANEL; ++j) to[j] = from[j];
      continue;
    }
    for (std::int64_t j = 0; j < width; ++j) to[j] = from[j * column];
    std::fill(to + width, to + PANEL, 0.0f);
  }
}

// A matrix [k, n] on the right of products, in panels; or as it is, where torch computes them.
struct Factor {
  Tensor values;  // [panels, k, PANEL]; pairs of bfloat16 as integers (gemm_bf16.h); or the matrix
  std::int64_t k = 0, n = 0;

  Factor() = default;
  Factor(Tensor panels, std::int64_t k_, std::int64_t n_) : values(std::move(panels)), k(k_), n(n_) {}
  explicit Factor(const Tensor& matrix) : values(matrix), k(matrix.size(0)), n(matrix.size(1)) {
    if (!OWN_GEMM) return;
#if CRVNN_HAS_AMX
    if (rounds_to_bf16()) {
      values = bf16_panels(matrix);
      return;
    }
#endif
    values = SpareBuffers::take({panels_of(n), k, PANEL}, matrix.options());
    for (std::int64_t j = 0; j < panels_of(n); ++j) {
      pack_panel(data(matrix), matrix.stride(0), matrix.stride(1), k, PANEL * j, n,
                 mutable_data(values) + PANEL * k * j);
    }
  }
};

// Returns the first columns of weights [outputs, inputs], transposed, as a factor; made once in a forward pass. Where torch
// computes products, it is a contiguous copy, with which it is faster, or outside a pass a view.
inline Factor transposed_factor(const Tensor& weight, std::int64_t columns) {
  ForwardPass& pass = ForwardPass::of_thread();
  for (const ForwardPass::Copy& copy : pass.copies) {
    if (same_memory(copy.weight, weight) && copy.version == version_of(weight) && copy.columns == columns) {
      return Factor(copy.values, columns, weight.size(0));
    }
  }
  const Tensor matrix = weight.narrow(1, 0, columns).t();
  if (!ForwardPass::is_running()) return Factor(matrix);
  const Factor made(OWN_GEMM ? matrix : matrix.contiguous());
  pass.copies.push_back({weight.tensor_data(), made.values, columns, version_of(weight)});
  return made;
}

// out [m, n] = a factor, or out += a factor if add; a is [m, k], and its rows may overlap. On several threads if the caller
// is on one.
inline void multiply(const Tensor& a, const Factor& factor, Tensor out, bool add = false) {
  if (!OWN_GEMM) {
    add ? out.addmm_(a, factor.values) : at::mm_out(out, a, factor.values);
    return;
  }
  const std::int64_t m = a.size(0), stride = a.stride(0), k = factor.k, n = factor.n;
#if CRVNN_HAS_AMX
  if (factor.values.scalar_type() == at::kInt) {
    const std::int32_t* pairs = factor.values.const_data_ptr<std::int32_t>();
    in_threads(blocks_of(m), std::max<std::int64_t>(2, 64 * GRAIN / std::max<std::int64_t>(1, BLOCK * k * n)),
               [&](std::int64_t first, std::int64_t last) {
                 const std::int64_t begin = BLOCK * first, end = std::min(m, BLOCK * last);
                 bf16_rows_product(data(a) + begin * stride, stride, end - begin, k, pairs, n,
                                   mutable_data(out) + begin * n, add);
               });
    return;
  }
#endif
  const std::int64_t grain = std::max<std::int64_t>(1, m * k * PANEL);
  const float *rows = data(a), *panels = data(factor.values);
  float* to = mutable_data(out);
  const auto work = [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t j = first; j < last; ++j) {
      for (std::int64_t i = 0; i < m; i += TILE_ROWS) {
        any_tile<false>(std::min<std::int64_t>(TILE_ROWS, m - i), k, rows + stride * i, stride, panels + PANEL * k * j,
                        to + n * i + PANEL * j, n, std::min(PANEL, n - PANEL * j), add);
      }
    }
  };
  in_threads(panels_of(n), std::max<std::int64_t>(1, 64 * GRAIN / grain), work);
}

// out [n, l] = a^T b for a [m, n] and b [m, l], or out += a^T b if add.
inline void transposed_product(const Tensor& a, const Tensor& b, Tensor out, bool add) {
  if (!OWN_GEMM) {
    add ? out.addmm_(a.t(), b) : at::mm_out(out, a.t(), b);
    return;
  }
  const std::int64_t m = a.size(0), n = a.size(1), l = b.size(1), strips = (n + TILE_ROWS - 1) / TILE_ROWS;
  float* to = mutable_data(out);
  for (std::int64_t p = 0; p < m; p += GEMM_DEPTH) {
    const std::int64_t depth = std::min(GEMM_DEPTH, m - p);
    Factor factor(b.narrow(0, p, depth));
#if CRVNN_HAS_AMX
    if (factor.values.scalar_type() == at::kInt) {
      const std::int64_t wide = (n + BF16_ROWS - 1) / BF16_ROWS * BF16_ROWS;
      Tensor pairs = SpareBuffers::take({whole_depth(depth) / 2, wide}, factor.values.options());
      pack_pairs(data(a) + p * n, n, depth, 0, n, wide, pairs.mutable_data_ptr<std::int32_t>());
      in_threads(wide / BF16_ROWS, 1, [&](std::int64_t first, std::int64_t last) {
        bf16_transposed_rows(pairs.const_data_ptr<std::int32_t>(), wide, depth,
                             factor.values.const_data_ptr<std::int32_t>(), BF16_ROWS * first,
                             std::min(n, BF16_ROWS * last), l, to, add || p > 0);
      });
      SpareBuffers::give(std::move(pairs));
      SpareBuffers::give(std::move(factor.values));
      continue;
    }
#endif
    const float *rows = data(a) + p * n, *panels = data(factor.values);
    in_threads(strips, 1, [&](std::int64_t first, std::int64_t last) {
      std::vector<float> strip(TILE_ROWS * depth);  // some columns of a, contiguous
      for (std::int64_t i = TILE_ROWS * first; i < std::min(n, TILE_ROWS * last); i += TILE_ROWS) {
        const std::int64_t count = std::min<std::int64_t>(TILE_ROWS, n - i);
        for (std::int64_t q = 0; q < depth; ++q) {
          const float* from = rows + q * n + i;
          float* copy = strip.data() + q * count;
          if (count == TILE_ROWS) {
            for (int c = 0; c < TILE_ROWS; ++c) copy[c] = from[c];
          } else {
            for (std::int64_t c = 0; c < count; ++c) copy[c] = from[c];
          }
        }
        for (std::int64_t j = 0; j < l; j += PANEL) {
          any_tile<true>(count, depth, strip.data(), count, panels + j * depth, to + i * l + j, l,
                         std::min(PANEL, l - j), add || p > 0);
        }
      }
    });
    SpareBuffers::give(std::move(factor.values));
  }
}

}  // namespace crvnn
