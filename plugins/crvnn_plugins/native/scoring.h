// A score for every position from what stands in its window.
#pragma once

#include <crvnn/activation.h>
#include <crvnn/common.h>
#include "windows.h"
#include <crvnn/weights.h>

namespace crvnn {

// What the scorer's convolution has for features that go from "untouched" to "composed" with left(c).
struct Features {
  Tensor composed, untouched;
  bool any() const { return composed.defined(); }
};

struct Scored {
  Tensor scores, mixed, slope;
};

// Convolution, its bias, the score's weights, its bias; and features if there are any.
inline Features features_of(at::TensorList weights) {
  return weights.size() > 4 ? Features{weights[4], weights[5]} : Features{};
}

inline Scored score_windows(const Tensor& windows, const Tensor& left_c, at::TensorList weights, std::int64_t kind) {
  const Tensor &weight = weights[0], &bias = weights[1];
  const Features features = features_of(weights);
  const std::int64_t rows = left_c.numel(), k = windows.size(-1), d = weight.size(0);
  Scored made{at::empty_like(left_c), at::empty({rows, d}, windows.options()), Tensor()};
  Tensor offset = bias;
  if (features.any()) {
    const Tensor part = weight.narrow(1, k, weight.size(1) - k);
    made.slope = part.mv(features.composed - features.untouched);
    offset = at::addmv(bias, part, features.untouched);
  }
  const Tensor score = weights[2].contiguous(), start = offset.contiguous(), given = windows.view({rows, k});
  const Tensor by_windows = transposed(weight.narrow(1, 0, k));
  const float* by = data(score);
  const float first_score = weights[3].const_data_ptr<float>()[0];
  const float* more = features.any() ? data(made.slope) : nullptr;
  const float *how_far = data(left_c), *base = data(start);
  float *x = mutable_data(made.mixed), *out = mutable_data(made.scores);
  Chunks(rows).each([&](std::int64_t, std::int64_t first, std::int64_t last) {
    at::AutoDispatchBelowADInplaceOrView also_here;
    Tensor mixed = part(made.mixed, first, last);
    at::mm_out(mixed, part(given, first, last), by_windows);
    std::vector<float> active(d);
    float* y = active.data();
    with_kind(kind, [&](auto known) {
      for (std::int64_t i = first; i < last; ++i) {
        float* xi = x + d * i;
        const float far = more ? how_far[i] : 0;
        for (std::int64_t j = 0; j < d; ++j) xi[j] += base[j];
        if (far != 0) {
          for (std::int64_t j = 0; j < d; ++j) xi[j] += far * more[j];
        }
#pragma omp simd
        for (std::int64_t j = 0; j < d; ++j) y[j] = activated<known.value>(xi[j]).value;
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (std::int64_t j = 0; j < d; ++j) sum += by[j] * y[j];
        out[i] = sum + first_score;
      }
    });
  });
  return made;
}

// From all steps: the gradients of the weights of the convolution, its bias, the score's weights, its bias, and of both
// features if there are any. The vectors are those of the score, the bias, the slope, and the score's bias.
struct ScorerGathering : Gathering {
  explicit ScorerGathering(const variable_list& weights)
      : weight(weights[0].tensor_data()),
        features{weights.size() > 4 ? weights[4].tensor_data() : Tensor(),
                 weights.size() > 4 ? weights[5].tensor_data() : Tensor()},
        score(weights[2].sizes().vec()) {}
  Tensor weight;
  Features features;
  std::vector<std::int64_t> score;

  std::int64_t inputs() const { return weight.size(1) - (features.any() ? features.composed.numel() : 0); }

  Gathered begin() const override {
    return {{{weight.size(0), inputs()}}, 3 * weight.size(0) + 1, weight.options()};
  }

  variable_list finish(const Gathered& all) const override {
    const std::int64_t d = weight.size(0);
    const Tensor of_bias = all.vector(d, d), of_slope = all.vector(2 * d, d);
    variable_list found{all.matrix(0), of_bias, all.vector(0, d).view(score), all.vector(3 * d, 1)};
    if (features.any()) {
      const Tensor part = weight.narrow(1, inputs(), features.composed.numel());
      const Tensor of_part = at::outer(of_slope, features.composed - features.untouched);
      found[0] = at::cat({found[0], of_part.addr_(of_bias, features.untouched)}, 1);
      found.push_back(part.t().mv(of_slope));
      found.push_back(part.t().mv(of_bias - of_slope));
    }
    return found;
  }
};

struct OfScored {
  Tensor windows, left_c;
};

// Backwards through score_windows. of_mixed [m, d] is written anew; it is for the gradient of the weights.
inline OfScored score_windows_backward(const Tensor& gradient, const Tensor& windows, const Tensor& left_c,
                                       const Tensor& weight, const Tensor& score_, const Tensor& mixed,
                                       const Tensor& slope, std::int64_t kind, const Tensor& of_mixed,
                                       Gathered& weights, bool frugal = false) {
  const Tensor score = score_.contiguous();
  const std::int64_t rows = left_c.numel(), k = windows.size(-1), d = weight.size(0), blocks = blocks_of(rows);
  const Tensor of_left_c = slope.defined() ? at::empty_like(left_c) : Tensor();
  const Tensor partial = at::empty({blocks, 3 * d + 1}, mixed.options());  // as in ScorerGathering
  const float *g = data(gradient), *by = data(score), *x = data(mixed), *how_far = data(left_c);
  const float* more = slope.defined() ? data(slope) : nullptr;
  float *to = mutable_data(of_mixed), *sums = mutable_data(partial);
  float* of_how_far = more ? mutable_data(of_left_c) : nullptr;
  const Tensor of_windows = room_for(windows.sizes(), windows.options(), frugal);
  const Tensor flat = of_windows.view({rows, k}), by_mixed = weight.narrow(1, 0, k);
  Chunks(rows, BLOCK).each([&](std::int64_t, std::int64_t begin, std::int64_t end) {
    at::AutoDispatchBelowADInplaceOrView also_here;
    with_kind(kind, [&](auto known) {
      for (std::int64_t i = begin; i < end; ++i) {
        float *of_score = sums + (3 * d + 1) * (i / BLOCK), *of_bias = of_score + d, *of_slope = of_bias + d;
        if (i % BLOCK == 0) std::fill(of_score, of_score + 3 * d + 1, 0.0f);
        const float* xi = x + d * i;
        const float own = g[i], far = how_far[i];
        float* out = to + d * i;
#pragma omp simd
        for (std::int64_t j = 0; j < d; ++j) {
          const Activated found = activated<known.value>(xi[j]);
          of_score[j] += own * found.value;
          out[j] = own * by[j] * found.slope;
          of_bias[j] += out[j];
        }
        of_slope[d] += own;
        if (!more) continue;
        float dot = 0;
#pragma omp simd reduction(+ : dot)
        for (std::int64_t j = 0; j < d; ++j) {
          of_slope[j] += far * out[j];
          dot += more[j] * out[j];
        }
        of_how_far[i] = dot;
      }
    });
    Tensor found = part(flat, begin, end);
    at::mm_out(found, part(of_mixed, begin, end), by_mixed);
  });
  weights.add_sums(partial, 0);
  return {of_windows, of_left_c};
}

inline void expect_windows(std::int64_t wide, const variable_list& weights) {
  const std::int64_t wanted = weights[0].size(1) - (weights.size() > 4 ? weights[4].numel() : 0);
  TORCH_CHECK(wide == wanted, "windows are ", wide, " numbers wide, not ", wanted);
}

inline variable_list listed(const Tensor& weight, const Tensor& bias, const Tensor& score, const Tensor& score_bias,
                            const std::optional<Tensor>& composed, const std::optional<Tensor>& untouched) {
  variable_list found{weight, bias, score, score_bias};
  if (composed && untouched) found.insert(found.end(), {*composed, *untouched});
  return found;
}

struct ScoreWindows : torch::autograd::Function<ScoreWindows> {
  static Tensor forward(AutogradContext* context, const Tensor& windows, const Tensor& left_c, at::TensorList weights,
                        const c10::intrusive_ptr<Weights>& shared, std::int64_t kind) {
    at::AutoDispatchBelowADInplaceOrView below;
    const Scored made = score_windows(windows, left_c, weights, kind);
    variable_list kept{windows, left_c, weights[0], weights[2], made.mixed, made.slope};
    kept.insert(kept.end(), weights.begin() + 4, weights.end());  // features: nobody may change them until then
    context->save_for_backward(kept);
    context->saved_data["weights"] = c10::IValue::make_capsule(shared);
    context->saved_data["kind"] = kind;
    return made.scores;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = saved_by(context, gradients);
    at::AutoDispatchBelowADInplaceOrView below;
    const Tensor &windows = saved[0], &mixed = saved[4];
    const Place place(context, 2);
    const Tensor of_mixed = at::empty_like(mixed);
    const OfScored of =
        score_windows_backward(gradients[0].contiguous(), windows, saved[1], saved[2], saved[3], mixed, saved[5],
                               context->saved_data["kind"].toInt(), of_mixed, *place);
    (*place).add(0, of_mixed, windows.view({of_mixed.size(0), -1}));
    variable_list found(2 + place.weights() + 2);
    found[0] = of.windows;
    found[1] = of.left_c;
    return found;
  }
};

// Scores [B, n] from windows [B, n, k], and left(c) of the last step [B, n].
inline Tensor scored(const Tensor& windows, const Tensor& left_c, const Tensor& weight, const Tensor& bias,
                     const Tensor& score, const Tensor& score_bias, const std::optional<Tensor>& composed,
                     const std::optional<Tensor>& untouched, std::int64_t kind) {
  TORCH_CHECK(windows.numel() == left_c.numel() * windows.size(-1), "windows of the shape ", windows.sizes(),
              " do not fit left(c) of the shape ", left_c.sizes());
  const variable_list weights = listed(weight, bias, score, score_bias, composed, untouched);
  expect_windows(windows.size(-1), weights);
  if (recording({windows, left_c}, weights)) {
    const auto shared = weights_for<ScorerGathering>(weights);
    return ScoreWindows::apply(windows, left_c, at::TensorList(shared->shared), shared, kind);
  }
  return score_windows(windows, left_c, weights, kind).scores;
}

// The same from the values [B, n, d] themselves, whose windows are made again in the backward pass: they are the largest
// thing there is in a step, and writing them to memory takes longer than making them. Beside the scores [B, n], the
// neighbours to the left [B, n, d], for others.
struct ScoreAlong : torch::autograd::Function<ScoreAlong> {
  static variable_list forward(AutogradContext* context, const Tensor& values, const Tensor& exists,
                               const Tensor& spans, const Tensor& shares, std::int64_t reach, const Tensor& left_c,
                               at::TensorList weights, const c10::intrusive_ptr<Weights>& shared, std::int64_t kind) {
    at::AutoDispatchBelowADInplaceOrView below;
    const auto [found, left] = windows(values, exists, spans, shares, reach);
    const Scored made = score_windows(found, left_c, weights, kind);
    variable_list kept{values, exists, spans, shares, left_c, weights[0], weights[2], made.mixed, made.slope};
    kept.insert(kept.end(), weights.begin() + 4, weights.end());  // features: nobody may change them until then
    context->save_for_backward(kept);
    context->saved_data["weights"] = c10::IValue::make_capsule(shared);
    context->saved_data["reach"] = reach;
    context->saved_data["kind"] = kind;
    context->saved_data["frugal"] = saving_memory();
    context->set_materialize_grads(false);
    return {made.scores, left};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = saved_by(context, gradients);
    at::AutoDispatchBelowADInplaceOrView below;
    const Tensor &values = saved[0], &exists = saved[1], &spans = saved[2], &shares = saved[3], &left_c = saved[4];
    const std::int64_t reach = context->saved_data["reach"].toInt();
    const Place place(context, 5);
    variable_list given(4 + 1 + 1 + place.weights() + 2);
    if (!gradients[0].defined()) {  // nobody asks about the scores
      const Tensor found = std::get<0>(windows(values, exists, spans, shares, reach));
      std::tie(given[0], given[1]) =
          windows_backward(found, exists, spans, shares, reach, at::zeros_like(found), gradients[1]);
      return given;
    }
    Gathered& weights = *place;
    const bool frugal = context->saved_data["frugal"].toBool();
    const variable_list room = weights.room(left_c.numel(), frugal);
    const Tensor &of_mixed = room[0], found = room[1].view({left_c.size(0), left_c.size(1), -1});
    make_windows(values, exists, spans, shares, reach, found, Tensor());
    const OfScored of =
        score_windows_backward(gradients[0].contiguous(), found, left_c, saved[5], saved[6], saved[7], saved[8],
                               context->saved_data["kind"].toInt(), of_mixed, weights, frugal);
    std::tie(given[0], given[1]) =
        windows_backward(found, exists, spans, shares, reach, of.windows, gradients[1]);
    given[5] = of.left_c;
    if (frugal) weights.settle(false);
    return given;
  }
};

inline std::tuple<Tensor, Tensor> scored_along(const Tensor& values, const Tensor& exists, const Tensor& spans,
                                               const Tensor& shares, std::int64_t reach, const Tensor& left_c,
                                               const Tensor& weight, const Tensor& bias, const Tensor& score,
                                               const Tensor& score_bias, const std::optional<Tensor>& composed,
                                               const std::optional<Tensor>& untouched, std::int64_t kind) {
  const variable_list weights = listed(weight, bias, score, score_bias, composed, untouched);
  expect_window(values, exists, reach);
  expect_fitting(left_c, exists);
  expect_windows((2 * reach + 1) * values.size(2), weights);
  if (recording({values, exists, left_c}, weights)) {
    const auto shared = weights_for<ScorerGathering>(weights);
    const variable_list found =
        ScoreAlong::apply(values, exists, spans, shares, reach, left_c, at::TensorList(shared->shared), shared, kind);
    return {found[0], found[1]};
  }
  const auto [found, left] = windows(values, exists, spans, shares, reach);
  return {score_windows(found, left_c, weights, kind).scores, left};
}

}  // namespace crvnn
