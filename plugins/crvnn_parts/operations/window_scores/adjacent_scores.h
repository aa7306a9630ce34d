// Scores where every position but the padding exists: neighbours are then the positions next to one, and the window of a
// position is a stretch of memory. Only the values are copied, sequence behind sequence with zeros between them; the rows of
// the GEMM overlap. The gradient of the values is a convolution as well: windows over the gradients of its output.
#pragma once

#include "../intervals/windows.h"
#include "scoring.h"

namespace crvnn {

// The existing positions of some sequences, one behind the other, with `reach` empty rows between two sequences.
struct AdjacentRows {
  std::vector<std::int64_t> from;  // the row of [B n] that each is; -1 if it is empty
  std::int64_t reach;

  AdjacentRows(const Tensor& exists, const std::vector<std::int64_t>& sequences, std::int64_t reach_) : reach(reach_) {
    const std::int64_t n = exists.size(1);
    const float* e = data(exists);
    for (std::int64_t row : sequences) {
      if (!from.empty()) from.insert(from.end(), reach, -1);
      for (std::int64_t i = n * row; i < n * (row + 1) && e[i] != 0; ++i) from.push_back(i);
    }
  }

  std::int64_t size() const { return from.size(); }

  // Returns an uninitialized matrix [size + 2 reach, width] with zeros in the first and last `reach` rows.
  Tensor lines(std::int64_t width, const at::TensorOptions& options) const {
    const Tensor made = at::empty({size() + 2 * reach, width}, options);
    std::fill_n(mutable_data(made), reach * width, 0.0f);
    std::fill_n(mutable_data(made) + (size() + reach) * width, reach * width, 0.0f);
    return made;
  }

  // Returns these rows of values [B n, d] as such a matrix; zeros in empty rows.
  Tensor lines_of(const Tensor& values) const {
    const std::int64_t d = values.size(-1);
    const Tensor made = lines(d, values.options());
    const float* all = data(values);
    float* line = mutable_data(made) + reach * d;
    over_rows(size(), d, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last; ++i) {
        if (from[i] < 0) std::fill_n(line + d * i, d, 0.0f);
        else std::copy_n(all + d * from[i], d, line + d * i);
      }
    });
    return made;
  }

  // Returns the windows [size, (2 reach + 1) width] of such a matrix: rows that overlap.
  Tensor windows(const Tensor& made) const {
    return made.as_strided({size(), (2 * reach + 1) * made.size(1)}, {made.size(1), 1});
  }
};

inline std::vector<std::int64_t> all_sequences(const Tensor& exists) {
  std::vector<std::int64_t> all(exists.size(0));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// Returns the forward pass; scores are 0 at padding. With save, mixed is [B n, d], written where a position exists.
inline Scored score_adjacent(const Tensor& values, const Tensor& exists, std::int64_t reach, const Tensor& left_c,
                             at::TensorList weights, std::int64_t kind, bool save) {
  const AdjacentRows rows(exists, all_sequences(exists), reach);
  const Tensor windows_ = rows.windows(rows.lines_of(values));
  const ScoreLayers layers(weights, windows_.size(1), kind);
  const std::int64_t d = layers.width();
  const Scored result{at::zeros_like(left_c), save ? at::empty({exists.numel(), d}, values.options()) : Tensor(),
                      layers.slope};
  const float* all_left_c = data(left_c);
  float *out = mutable_data(result.scores), *saved = save ? mutable_data(result.mixed) : nullptr;
  Chunks(rows.size()).each([&](std::int64_t, std::int64_t first, std::int64_t last) {
    at::AutoDispatchBelowADInplaceOrView below;
    const Tensor mixed = at::empty({last - first, d}, values.options());
    float* x = mutable_data(mixed);
    multiply(slice_rows(windows_, first, last), layers.by_windows, mixed);
    layers.score(
        x, last - first,
        [&](std::int64_t i) { return rows.from[first + i] < 0 ? 0 : all_left_c[rows.from[first + i]]; },
        [&](std::int64_t i, float score) {
          const std::int64_t row = rows.from[first + i];
          if (row < 0) return;
          out[row] = score;
          if (saved) std::copy_n(x + d * i, d, saved + d * row);
        });
  });
  return result;
}

struct AdjacentScores : torch::autograd::Function<AdjacentScores> {
  static Tensor forward(AutogradContext* context, const Tensor& values, const Tensor& exists, std::int64_t reach,
                        const Tensor& left_c, at::TensorList weights, const c10::intrusive_ptr<SharedWeights>& shared,
                        std::int64_t kind) {
    at::AutoDispatchBelowADInplaceOrView below;
    const Scored result = score_adjacent(values, exists, reach, left_c, weights, kind, true);
    variable_list saved{values, exists, left_c, weights[0], weights[2], result.mixed, result.slope};
    saved.insert(saved.end(), weights.begin() + 4, weights.end());  // features, so that autograd detects changes in place
    context->save_for_backward(saved);
    context->saved_data["weights"] = c10::IValue::make_capsule(shared);
    context->saved_data["reach"] = reach;
    context->saved_data["kind"] = kind;
    return result.scores;
  }

  // Sequences whose scores have no gradient are left out, as where decisions are saturated or not supervised.
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = saved_tensors(context, gradients);
    at::AutoDispatchBelowADInplaceOrView below;
    const Tensor &values = saved[0], &left_c = saved[2], score = saved[4].contiguous(), &mixed = saved[5], &slope = saved[6];
    const StepGradients step(context, 3);
    DeferredGradients& weights = *step;  // weights have a gradient, even if it is 0: optimizers skip those without one
    const Tensor gradient = gradients[0].contiguous();
    const std::int64_t reach = context->saved_data["reach"].toInt(), kind = context->saved_data["kind"].toInt();
    const AdjacentRows rows(saved[1], sequences_with_gradient(gradient), reach);
    const std::int64_t count = rows.size(), d = values.size(2), width = mixed.size(1);
    const Tensor of_values = at::zeros_like(values), of_left_c = slope.defined() ? at::zeros_like(left_c) : Tensor();
    variable_list of_inputs(3 + 1 + step.weights() + 2);
    of_inputs[0] = of_values;
    of_inputs[3] = of_left_c;
    if (!count) return of_inputs;
    const Tensor lines = rows.lines(width, values.options());  // of the gradients of mixed
    const Tensor partial = at::empty({blocks_of(count), 3 * width + 1}, values.options());
    const float *g = data(gradient), *x = data(mixed), *all_left_c = data(left_c);
    const float* slopes = slope.defined() ? data(slope) : nullptr;
    float *of_x = mutable_data(lines) + reach * width, *to_left_c = slopes ? mutable_data(of_left_c) : nullptr;
    Chunks(count, BLOCK).each([&](std::int64_t, std::int64_t begin, std::int64_t end) {
      mixed_backward(kind, begin, end, width, data(score), slopes, mutable_data(partial), [&](std::int64_t i) {
        const std::int64_t row = rows.from[i];
        if (row < 0) return MixedRow{nullptr, 0, 0, of_x + width * i, nullptr};
        return MixedRow{x + width * row, g[row], all_left_c[row], of_x + width * i, slopes ? to_left_c + row : nullptr};
      });
    });
    weights.accumulate_sums(partial, 0);
    weights.accumulate(0, lines.narrow(0, reach, count), rows.windows(rows.lines_of(values)));
    const Tensor weight = saved[3].narrow(1, 0, (2 * reach + 1) * d);
    const Factor transposed = step.factor(1, [&] {  // the convolution's blocks [width, d] in reverse order
      variable_list blocks;
      for (std::int64_t m = 2 * reach; m >= 0; --m) blocks.push_back(weight.narrow(1, m * d, d));
      return at::cat(blocks, 0);
    });
    const Tensor windows_ = rows.windows(lines);
    float* to = mutable_data(of_values);
    Chunks(count).each([&](std::int64_t, std::int64_t begin, std::int64_t end) {
      at::AutoDispatchBelowADInplaceOrView below;
      const Tensor found = at::empty({end - begin, d}, values.options());
      multiply(slice_rows(windows_, begin, end), transposed, found);
      for (std::int64_t i = begin; i < end; ++i) {
        if (rows.from[i] >= 0) std::copy_n(data(found) + d * (i - begin), d, to + d * rows.from[i]);
      }
    });
    return of_inputs;
  }
};

// The operator: scores [B, n] of values [B, n, d] with existence [B, n], which is 1 before the padding and 0 there.
inline Tensor adjacent_scores(const Tensor& values, const Tensor& exists, std::int64_t reach, const Tensor& left_c,
                              const Tensor& weight, const Tensor& bias, const Tensor& score, const Tensor& score_bias,
                              const std::optional<Tensor>& composed, const std::optional<Tensor>& untouched,
                              std::int64_t kind) {
  const variable_list weights = weight_list(weight, bias, score, score_bias, composed, untouched);
  check_window(values, exists, reach);
  check_shape(left_c, exists);
  check_window_width((2 * reach + 1) * values.size(2), weights);
  if (!recording({values, left_c}, weights)) {
    return score_adjacent(values, exists, reach, left_c, weights, kind, false).scores;
  }
  const auto shared = shared_weights<ScorerGradients>(weights);
  return AdjacentScores::apply(values, exists, reach, left_c, at::TensorList(shared->shared), shared, kind);
}

}  // namespace crvnn
