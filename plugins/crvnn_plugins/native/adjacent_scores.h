// Scores where every position but the padding exists: neighbours are then the positions next to one, and the window of a
// position is a stretch of memory. Nothing is copied but the values, with zeros between sequences; the GEMM reads rows that
// overlap. For passes without gradients.
#pragma once

#include "scoring.h"
#include "windows.h"

namespace crvnn {

// Returns the scores [B, n] of values [B, n, d] with existence [B, n], 1 before the padding and 0 there; 0 at padding.
inline Tensor adjacent_scores(const Tensor& values, const Tensor& exists, std::int64_t reach, const Tensor& left_c,
                              const Tensor& weight, const Tensor& bias, const Tensor& score, const Tensor& score_bias,
                              const std::optional<Tensor>& composed, const std::optional<Tensor>& untouched,
                              std::int64_t kind) {
  const std::int64_t batch = values.size(0), n = values.size(1), d = values.size(2), k = (2 * reach + 1) * d;
  const variable_list weights = weight_list(weight, bias, score, score_bias, composed, untouched);
  check_window(values, exists, reach);
  check_shape(left_c, exists);
  check_window_width(k, weights);
  // The sequences one behind the other, with `reach` lines of zeros before each and behind the last: window i is the
  // memory from line i on.
  std::vector<std::int64_t> from;  // the row of values in the middle of each window; -1 between sequences
  for (std::int64_t row = 0; row < batch; ++row) {
    if (row) from.insert(from.end(), reach, -1);
    for (std::int64_t i = n * row; i < n * (row + 1) && data(exists)[i] != 0; ++i) from.push_back(i);
  }
  const std::int64_t rows = from.size(), width = weight.size(0);
  const Tensor lines = at::empty({rows + 2 * reach, d}, values.options()), scores = at::zeros_like(left_c);
  float* line = mutable_data(lines);
  std::fill_n(line, reach * d, 0.0f);
  std::fill_n(line + (rows + reach) * d, reach * d, 0.0f);
  over_rows(rows, d, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) {
      float* to = line + (i + reach) * d;
      if (from[i] < 0) std::fill_n(to, d, 0.0f);
      else std::copy_n(data(values) + d * from[i], d, to);
    }
  });
  const ScoreLayers layers(weights, k, kind);
  const Tensor windows = lines.as_strided({rows, k}, {d, 1}), mixed = at::empty({rows, width}, values.options());
  Chunks(rows).each([&](std::int64_t, std::int64_t first, std::int64_t last) {
    at::AutoDispatchBelowADInplaceOrView below;
    multiply(slice_rows(windows, first, last), layers.by_windows, slice_rows(mixed, first, last));
    layers.score(
        mutable_data(mixed) + width * first, last - first,
        [&](std::int64_t i) { return from[first + i] < 0 ? 0 : data(left_c)[from[first + i]]; },
        [&](std::int64_t i, float found) {
          if (from[first + i] >= 0) mutable_data(scores)[from[first + i]] = found;
        });
  });
  return scores;
}

}  // namespace crvnn
