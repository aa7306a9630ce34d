// Scores [B, n] of positions from their windows [B, n, k]: a convolution, an activation and a linear map,
//
//   mixed = weight [window, untouched + left(c) (composed - untouched)] + bias        [B n, d]
//   score = score_weight activation(mixed) + score_bias
//
// The features behind the window are affine in left(c), so their part of the convolution is offset + left(c) slope, with
// two vectors [d] computed once per call. Weight gradients are deferred (weights.h).
#pragma once

#include <crvnn/activation.h>
#include <crvnn/common.h>
#include <crvnn/weights.h>

namespace crvnn {

// The features of positions with left(c) = 1 and left(c) = 0 [f]; undefined if the scorer has none.
struct Features {
  Tensor composed, untouched;
  bool any() const { return composed.defined(); }
};

// Scores [B, n]; for the backward pass mixed [B n, d] and slope [d].
struct Scored {
  Tensor scores, mixed, slope;
};

// Returns the features among the weights: convolution and its bias, score and its bias, then composed and untouched.
inline Features features_of(at::TensorList weights) {
  return weights.size() > 4 ? Features{weights[4], weights[5]} : Features{};
}

// The forward pass behind the convolution: the weights as a factor, and what each row of it becomes.
class ScoreLayers {
 public:
  // For windows of width k.
  ScoreLayers(at::TensorList weights, std::int64_t k, std::int64_t kind)
      : by_windows(transposed_factor(weights[0], k)), kind_(kind), offset_(weights[1].contiguous()),
        score_(weights[2].contiguous()), score_bias_(weights[3].const_data_ptr<float>()[0]) {
    const Features features = features_of(weights);
    if (!features.any()) return;
    const Tensor of_features = weights[0].narrow(1, k, weights[0].size(1) - k);
    slope = of_features.mv(features.composed - features.untouched);
    offset_ = at::addmv(weights[1], of_features, features.untouched);
  }

  Factor by_windows;
  Tensor slope;  // [d]; undefined without features
  std::int64_t width() const { return score_.numel(); }

  // Adds the bias and the features' part to rows x [rows, d] of the convolution's output, and calls done(i, score) for
  // each; left_c_of(i) returns left(c) of row i.
  template <class LeftC, class Done>
  void score(float* x, std::int64_t rows, const LeftC& left_c_of, const Done& done) const {
    const std::int64_t d = width();
    const float *base = data(offset_), *by = data(score_), *slopes = slope.defined() ? data(slope) : nullptr;
    std::vector<float> active(d);
    float* y = active.data();
    with_kind(kind_, [&](auto known) {
      for (std::int64_t i = 0; i < rows; ++i) {
        float* xi = x + d * i;
        const float left_c = slopes ? left_c_of(i) : 0;
        for (std::int64_t j = 0; j < d; ++j) xi[j] += base[j];
        if (left_c != 0) {
          for (std::int64_t j = 0; j < d; ++j) xi[j] += left_c * slopes[j];
        }
#pragma omp simd
        for (std::int64_t j = 0; j < d; ++j) y[j] = activated<known.value>(xi[j]).value;
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (std::int64_t j = 0; j < d; ++j) sum += by[j] * y[j];
        done(i, sum + score_bias_);
      }
    });
  }

 private:
  std::int64_t kind_;
  Tensor offset_, score_;
  float score_bias_;
};

// Returns the forward pass for windows [B, n, k] and left(c) [B, n].
inline Scored score_windows(const Tensor& windows, const Tensor& left_c, at::TensorList weights, std::int64_t kind) {
  const std::int64_t rows = left_c.numel(), k = windows.size(-1), d = weights[0].size(0);
  const ScoreLayers layers(weights, k, kind);
  const Scored result{at::empty_like(left_c), at::empty({rows, d}, windows.options()), layers.slope};
  const Tensor matrix = windows.view({rows, k});
  const float* all_left_c = data(left_c);
  float *x = mutable_data(result.mixed), *out = mutable_data(result.scores);
  Chunks(rows).each([&](std::int64_t, std::int64_t first, std::int64_t last) {
    at::AutoDispatchBelowADInplaceOrView below;
    multiply(slice_rows(matrix, first, last), layers.by_windows, slice_rows(result.mixed, first, last));
    layers.score(
        x + d * first, last - first, [&](std::int64_t i) { return all_left_c[first + i]; },
        [&](std::int64_t i, float score) { out[first + i] = score; });
  });
  return result;
}

// The deferred gradients of the scorer's weights: the part of the convolution for windows as a matrix; in one array the
// vectors score, bias, slope (d each) and score_bias (1). Those of the features follow from bias and slope.
struct ScorerGradients : WeightGradients {
  explicit ScorerGradients(const variable_list& weights)
      : weight(weights[0].tensor_data()),
        features{weights.size() > 4 ? weights[4].tensor_data() : Tensor(),
                 weights.size() > 4 ? weights[5].tensor_data() : Tensor()},
        score(weights[2].sizes().vec()) {}
  Tensor weight;
  Features features;
  std::vector<std::int64_t> score;

  std::int64_t inputs() const { return weight.size(1) - (features.any() ? features.composed.numel() : 0); }

  DeferredGradients start() const override {
    return {{{weight.size(0), inputs()}}, 3 * weight.size(0) + 1, weight.options()};
  }

  variable_list finish(const DeferredGradients& all) const override {
    const std::int64_t d = weight.size(0);
    const Tensor of_bias = all.vector(d, d), of_slope = all.vector(2 * d, d);
    variable_list gradients{all.matrix(0), of_bias, all.vector(0, d).view(score), all.vector(3 * d, 1)};
    if (features.any()) {
      const Tensor of_features = weight.narrow(1, inputs(), features.composed.numel());
      const Tensor of_feature_weight = at::outer(of_slope, features.composed - features.untouched);
      gradients[0] = at::cat({gradients[0], of_feature_weight.addr_(of_bias, features.untouched)}, 1);
      gradients.push_back(of_features.t().mv(of_slope));
      gradients.push_back(of_features.t().mv(of_bias - of_slope));
    }
    return gradients;
  }
};

// A row of the convolution's output x [d] with what its backward pass takes and writes: the gradient of the score, left(c),
// the gradient of x [d], and that of left(c). Without x there is no such row, and its gradient is 0.
struct MixedRow {
  const float* x;
  float own, left_c;
  float *of_x, *of_left_c;
};

// The backward pass between scores and the convolution's output, for rows begin ... end: row_of(i) returns row i. Writes the
// vectors of ScorerGradients, summed over each BLOCK of rows, to sums [blocks, 3 d + 1]. slopes may be null.
template <class RowOf>
void mixed_backward(std::int64_t kind, std::int64_t begin, std::int64_t end, std::int64_t d, const float* by,
                    const float* slopes, float* sums, const RowOf& row_of) {
  with_kind(kind, [&](auto known) {
    for (std::int64_t i = begin; i < end; ++i) {
      float *of_score = sums + (3 * d + 1) * (i / BLOCK), *of_bias = of_score + d, *of_slope = of_bias + d;
      if (i % BLOCK == 0) std::fill(of_score, of_score + 3 * d + 1, 0.0f);
      const MixedRow row = row_of(i);
      float* out = row.of_x;
      if (!row.x) {
        std::fill_n(out, d, 0.0f);
        continue;
      }
#pragma omp simd
      for (std::int64_t j = 0; j < d; ++j) {
        const Activated act = activated<known.value>(row.x[j]);
        of_score[j] += row.own * act.value;
        out[j] = row.own * by[j] * act.derivative;
        of_bias[j] += out[j];
      }
      of_slope[d] += row.own;
      if (!slopes) continue;
      float dot = 0;
#pragma omp simd reduction(+ : dot)
      for (std::int64_t j = 0; j < d; ++j) {
        of_slope[j] += row.left_c * out[j];
        dot += slopes[j] * out[j];
      }
      *row.of_left_c = dot;
    }
  });
}

struct ScoreGradients {
  Tensor windows, left_c;
};

// The backward pass of score_windows. Writes of_mixed [m, d], which the deferred gradients need; returns the gradients of
// the windows and of left(c).
inline ScoreGradients score_windows_backward(const Tensor& gradient, const Tensor& windows, const Tensor& left_c,
                                             const Factor& by_mixed, const Tensor& score_, const Tensor& mixed,
                                             const Tensor& slope, std::int64_t kind, const Tensor& of_mixed,
                                             DeferredGradients& weights, bool checkpointing = false) {
  const Tensor score = score_.contiguous();
  const std::int64_t rows = left_c.numel(), k = windows.size(-1), d = mixed.size(1), blocks = blocks_of(rows);
  const Tensor of_left_c = slope.defined() ? at::empty_like(left_c) : Tensor();
  const Tensor partial = at::empty({blocks, 3 * d + 1}, mixed.options());
  const float *g = data(gradient), *x = data(mixed), *all_left_c = data(left_c);
  const float* slopes = slope.defined() ? data(slope) : nullptr;
  float *to = mutable_data(of_mixed), *to_left_c = slopes ? mutable_data(of_left_c) : nullptr;
  const Tensor of_windows = scratch(windows.sizes(), windows.options(), checkpointing);
  const Tensor flat = of_windows.view({rows, k});
  Chunks(rows, BLOCK).each([&](std::int64_t, std::int64_t begin, std::int64_t end) {
    at::AutoDispatchBelowADInplaceOrView below;
    mixed_backward(kind, begin, end, d, data(score), slopes, mutable_data(partial), [&](std::int64_t i) {
      return MixedRow{x + d * i, g[i], all_left_c[i], to + d * i, slopes ? to_left_c + i : nullptr};
    });
    multiply(slice_rows(of_mixed, begin, end), by_mixed, slice_rows(flat, begin, end));
  });
  weights.accumulate_sums(partial, 0);
  return {of_windows, of_left_c};
}

// Returns the sequences of a gradient [B, n] that have a number other than 0 in it; none if it is undefined.
inline std::vector<std::int64_t> sequences_with_gradient(const Tensor& gradient) {
  std::vector<std::int64_t> found;
  if (!gradient.defined()) return found;
  const Tensor dense = gradient.contiguous();
  const std::int64_t n = dense.size(1);
  const float* g = data(dense);
  for (std::int64_t row = 0; row < dense.size(0); ++row) {
    if (std::any_of(g + n * row, g + n * (row + 1), [](float own) { return own != 0; })) found.push_back(row);
  }
  return found;
}

inline void check_window_width(std::int64_t width, const variable_list& weights) {
  const std::int64_t expected = weights[0].size(1) - (weights.size() > 4 ? weights[4].numel() : 0);
  TORCH_CHECK(width == expected, "windows have a width of ", width, ", the scorer expects ", expected);
}

inline variable_list weight_list(const Tensor& weight, const Tensor& bias, const Tensor& score, const Tensor& score_bias,
                                 const std::optional<Tensor>& composed, const std::optional<Tensor>& untouched) {
  variable_list weights{weight, bias, score, score_bias};
  if (composed && untouched) weights.insert(weights.end(), {*composed, *untouched});
  return weights;
}

struct ScoreWindows : torch::autograd::Function<ScoreWindows> {
  static Tensor forward(AutogradContext* context, const Tensor& windows, const Tensor& left_c, at::TensorList weights,
                        const c10::intrusive_ptr<SharedWeights>& shared, std::int64_t kind) {
    at::AutoDispatchBelowADInplaceOrView below;
    const Scored result = score_windows(windows, left_c, weights, kind);
    variable_list saved{windows, left_c, weights[0], weights[2], result.mixed, result.slope};
    saved.insert(saved.end(), weights.begin() + 4, weights.end());  // features, so that autograd detects changes in place
    context->save_for_backward(saved);
    context->saved_data["weights"] = c10::IValue::make_capsule(shared);
    context->saved_data["kind"] = kind;
    return result.scores;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = saved_tensors(context, gradients);
    at::AutoDispatchBelowADInplaceOrView below;
    const Tensor &windows = saved[0], &mixed = saved[4];
    const StepGradients step(context, 2);
    const Tensor of_mixed = at::empty_like(mixed);
    const Factor by_mixed = step.factor(0, saved[2].narrow(1, 0, windows.size(-1)));
    const ScoreGradients of =
        score_windows_backward(gradients[0].contiguous(), windows, saved[1], by_mixed, saved[3], mixed, saved[5],
                               context->saved_data["kind"].toInt(), of_mixed, *step);
    (*step).accumulate(0, of_mixed, windows.view({of_mixed.size(0), -1}));
    variable_list of_inputs(2 + step.weights() + 2);
    of_inputs[0] = of.windows;
    of_inputs[1] = of.left_c;
    return of_inputs;
  }
};

// Returns scores [B, n] for windows [B, n, k] and left(c) of the last step [B, n].
inline Tensor window_scores(const Tensor& windows, const Tensor& left_c, const Tensor& weight, const Tensor& bias,
                            const Tensor& score, const Tensor& score_bias, const std::optional<Tensor>& composed,
                            const std::optional<Tensor>& untouched, std::int64_t kind) {
  TORCH_CHECK(windows.numel() == left_c.numel() * windows.size(-1), "windows of shape ", windows.sizes(),
              " do not fit left(c) of shape ", left_c.sizes());
  const variable_list weights = weight_list(weight, bias, score, score_bias, composed, untouched);
  check_window_width(windows.size(-1), weights);
  if (recording({windows, left_c}, weights)) {
    const auto shared = shared_weights<ScorerGradients>(weights);
    return ScoreWindows::apply(windows, left_c, at::TensorList(shared->shared), shared, kind);
  }
  return score_windows(windows, left_c, weights, kind).scores;
}

}  // namespace crvnn
