// A score for every position from what stands in its window; and soft decisions from scores.
#pragma once

#include "activation.h"
#include "common.h"
#include "intervals.h"
#include "weights.h"

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

inline Scored score_windows(const Tensor& windows, const Tensor& gained, at::TensorList weights, std::int64_t kind) {
  const Tensor &weight = weights[0], &bias = weights[1];
  const Features features = features_of(weights);
  const std::int64_t rows = gained.numel(), k = windows.size(-1), d = weight.size(0);
  Scored made{at::empty_like(gained), at::empty({rows, d}, windows.options()), Tensor()};
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
  const float *how_far = data(gained), *base = data(start);
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
  Tensor windows, gained;
};

// Backwards through score_windows. of_mixed [m, d] is written anew; it is for the gradient of the weights.
inline OfScored score_windows_backward(const Tensor& gradient, const Tensor& windows, const Tensor& gained,
                                       const Tensor& weight, const Tensor& score_, const Tensor& mixed,
                                       const Tensor& slope, std::int64_t kind, const Tensor& of_mixed,
                                       Gathered& weights, bool frugal = false) {
  const Tensor score = score_.contiguous();
  const std::int64_t rows = gained.numel(), k = windows.size(-1), d = weight.size(0), blocks = blocks_of(rows);
  const Tensor of_gained = slope.defined() ? at::empty_like(gained) : Tensor();
  const Tensor partial = at::empty({blocks, 3 * d + 1}, mixed.options());  // as in ScorerGathering
  const float *g = data(gradient), *by = data(score), *x = data(mixed), *how_far = data(gained);
  const float* more = slope.defined() ? data(slope) : nullptr;
  float *to = mutable_data(of_mixed), *sums = mutable_data(partial);
  float* of_how_far = more ? mutable_data(of_gained) : nullptr;
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
  return {of_windows, of_gained};
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
  static Tensor forward(AutogradContext* context, const Tensor& windows, const Tensor& gained, at::TensorList weights,
                        const c10::intrusive_ptr<Weights>& shared, std::int64_t kind) {
    at::AutoDispatchBelowADInplaceOrView below;
    const Scored made = score_windows(windows, gained, weights, kind);
    variable_list kept{windows, gained, weights[0], weights[2], made.mixed, made.slope};
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
    found[1] = of.gained;
    return found;
  }
};

// Scores [B, n] from windows [B, n, k], and left(c) of the last step [B, n].
inline Tensor scored(const Tensor& windows, const Tensor& gained, const Tensor& weight, const Tensor& bias,
                     const Tensor& score, const Tensor& score_bias, const std::optional<Tensor>& composed,
                     const std::optional<Tensor>& untouched, std::int64_t kind) {
  TORCH_CHECK(windows.numel() == gained.numel() * windows.size(-1), "windows of the shape ", windows.sizes(),
              " do not fit left(c) of the shape ", gained.sizes());
  const variable_list weights = listed(weight, bias, score, score_bias, composed, untouched);
  expect_windows(windows.size(-1), weights);
  if (recording({windows, gained}, weights)) {
    const auto shared = weights_for<ScorerGathering>(weights);
    return ScoreWindows::apply(windows, gained, at::TensorList(shared->shared), shared, kind);
  }
  return score_windows(windows, gained, weights, kind).scores;
}

// The same from the values [B, n, d] themselves, whose windows are made again in the backward pass: they are the largest
// thing there is in a step, and writing them to memory takes longer than making them. Beside the scores [B, n], the
// neighbours to the left [B, n, d], for others.
struct ScoreAlong : torch::autograd::Function<ScoreAlong> {
  static variable_list forward(AutogradContext* context, const Tensor& values, const Tensor& exists,
                               const Tensor& spans, const Tensor& shares, std::int64_t reach, const Tensor& gained,
                               at::TensorList weights, const c10::intrusive_ptr<Weights>& shared, std::int64_t kind) {
    at::AutoDispatchBelowADInplaceOrView below;
    const auto [found, left] = windows(values, exists, spans, shares, reach);
    const Scored made = score_windows(found, gained, weights, kind);
    variable_list kept{values, exists, spans, shares, gained, weights[0], weights[2], made.mixed, made.slope};
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
    const Tensor &values = saved[0], &exists = saved[1], &spans = saved[2], &shares = saved[3], &gained = saved[4];
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
    const variable_list room = weights.room(gained.numel(), frugal);
    const Tensor &of_mixed = room[0], found = room[1].view({gained.size(0), gained.size(1), -1});
    make_windows(values, exists, spans, shares, reach, found, Tensor());
    const OfScored of =
        score_windows_backward(gradients[0].contiguous(), found, gained, saved[5], saved[6], saved[7], saved[8],
                               context->saved_data["kind"].toInt(), of_mixed, weights, frugal);
    std::tie(given[0], given[1]) =
        windows_backward(found, exists, spans, shares, reach, of.windows, gradients[1]);
    given[5] = of.gained;
    if (frugal) weights.settle(false);
    return given;
  }
};

inline std::tuple<Tensor, Tensor> scored_along(const Tensor& values, const Tensor& exists, const Tensor& spans,
                                               const Tensor& shares, std::int64_t reach, const Tensor& gained,
                                               const Tensor& weight, const Tensor& bias, const Tensor& score,
                                               const Tensor& score_bias, const std::optional<Tensor>& composed,
                                               const std::optional<Tensor>& untouched, std::int64_t kind) {
  const variable_list weights = listed(weight, bias, score, score_bias, composed, untouched);
  expect_window(values, exists, reach);
  expect_fitting(gained, exists);
  expect_windows((2 * reach + 1) * values.size(2), weights);
  if (recording({values, exists, gained}, weights)) {
    const auto shared = weights_for<ScorerGathering>(weights);
    const variable_list found =
        ScoreAlong::apply(values, exists, spans, shares, reach, gained, at::TensorList(shared->shared), shared, kind);
    return {found[0], found[1]};
  }
  const auto [found, left] = windows(values, exists, spans, shares, reach);
  return {score_windows(found, gained, weights, kind).scores, left};
}

// How neighbours hold each other back: exp(left(u)) as in the paper, or left(exp(u)) as in the published code.
enum Form { PAPER, REFERENCE };

// Of one sequence, for each position: how strong its neighbours and itself are, next to the strongest of them (as the
// paper has it) or of all (as the published code has it).
struct Rivals {
  std::vector<float> left, right, strength;
  explicit Rivals(std::int64_t n) : left(n), right(n), strength(n) {}
};

// Decisions, and one over all that is weighed in each.
inline void decide_row(const Line& line, const float* scores, const bool* eligible, Form form, Rivals& rivals,
                       float* out, float* inverse) {
  const std::int64_t n = line.n;
  float highest = 0;
  if (form == REFERENCE) {
    for (std::int64_t i = 0; i < n; ++i) {
      if (eligible[i] && highest == highest && !(scores[i] <= highest)) highest = scores[i];  // NaN stays
    }
    for (std::int64_t i = 0; i < n; ++i) rivals.strength[i] = eligible[i] ? std::exp(scores[i] - highest) : 0;
    scores = rivals.strength.data();
  }
  const Read from{scores, 1};
  neighbour<LEFT>(line, from, Write{rivals.left.data(), 1}, 1);
  neighbour<RIGHT>(line, from, Write{rivals.right.data(), 1}, 1);
  const float nobody = form == REFERENCE ? std::max(std::exp(-highest), 1e-30f) : 0;
  for (std::int64_t i = 0; i < n; ++i) {
    float &left = rivals.left[i], &right = rivals.right[i];
    if (form == PAPER) {
      const float most = std::max(std::max(left, right), std::max(scores[i], 0.0f));
      left = std::exp(left - most);
      right = std::exp(right - most);
      rivals.strength[i] = std::exp(scores[i] - most);
      inverse[i] = 1 / (rivals.strength[i] + left + right + std::exp(-most));
    } else {
      inverse[i] = 1 / (rivals.strength[i] + left + right + nobody);
    }
    out[i] = eligible[i] ? rivals.strength[i] * inverse[i] : 0;
  }
}

// Decisions may be stretched beyond both ends and clipped: this is one before it is clipped.
inline float stretched(float chosen, float stretch) { return (1 + 2 * stretch) * chosen - stretch; }

// Composition probabilities c [B, n] from scores u [B, n].
inline Tensor decide(const Tensor& scores, const Tensor& eligible, const Tensor& exists, const Tensor& spans,
                     const Tensor& shares, Form form, float stretch) {
  const std::int64_t batch = scores.size(0), n = scores.size(1);
  const Tensor found = at::empty_like(scores);
  over_rows(batch, 64 * n, [&](std::int64_t first, std::int64_t last) {
    Rivals rivals(n);
    std::vector<float> inverse(n);
    for (std::int64_t row = first; row < last; ++row) {
      decide_row(Line(exists, spans, shares, row), data(scores) + n * row, eligible.const_data_ptr<bool>() + n * row,
                 form, rivals, mutable_data(found) + n * row, inverse.data());
    }
  });
  if (stretch) {
    float* c = mutable_data(found);
    for (std::int64_t i = 0; i < batch * n; ++i) {
      const float wide = stretched(c[i], stretch);
      c[i] = wide < 0 ? 0 : wide > 1 ? 1 : wide;  // what is not a number stays so
    }
  }
  return found;
}

struct Decide : torch::autograd::Function<Decide> {
  static Tensor forward(AutogradContext* context, const Tensor& scores, const Tensor& eligible, const Tensor& exists,
                        const Tensor& spans, const Tensor& shares, std::int64_t form, double stretch) {
    at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({scores, eligible, exists, spans, shares});
    context->saved_data["form"] = form;
    context->saved_data["stretch"] = stretch;
    return decide(scores, eligible, exists, spans, shares, static_cast<Form>(form), static_cast<float>(stretch));
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = saved_by(context, gradients);
    at::AutoDispatchBelowADInplaceOrView below;
    const Tensor &scores = saved[0], &exists = saved[2];
    const Form form = static_cast<Form>(context->saved_data["form"].toInt());
    const float stretch = static_cast<float>(context->saved_data["stretch"].toDouble());
    const Tensor gradient = gradients[0].contiguous();
    const std::int64_t batch = scores.size(0), n = scores.size(1);
    const Tensor of_scores = at::empty_like(scores), of_exists = at::empty_like(exists);
    over_rows(batch, 128 * n, [&](std::int64_t first, std::int64_t last) {
      Rivals rivals(n);
      std::vector<float> inverse(n), chosen(n), of_left(n), of_right(n);
      for (std::int64_t row = first; row < last; ++row) {
        const Line line(exists, saved[3], saved[4], row);
        const float *u = data(scores) + n * row, *g = data(gradient) + n * row;
        const bool* eligible = saved[1].const_data_ptr<bool>() + n * row;
        float* out = mutable_data(of_scores) + n * row;
        decide_row(line, u, eligible, form, rivals, chosen.data(), inverse.data());
        for (std::int64_t i = 0; i < n; ++i) {
          const float wide = stretched(chosen[i], stretch);
          const float given = wide < 0 || wide > 1 ? 0 : (1 + 2 * stretch) * g[i], own = given * chosen[i];
          if (form == PAPER) {
            out[i] = own * (1 - chosen[i]);
            of_left[i] = -own * rivals.left[i] * inverse[i];
            of_right[i] = -own * rivals.right[i] * inverse[i];
          } else {
            out[i] = eligible[i] ? given * inverse[i] * (1 - chosen[i]) : 0;
            of_left[i] = of_right[i] = -own * inverse[i];
          }
        }
        OfExists sums(n, 1);
        const Read from{form == PAPER ? u : rivals.strength.data(), 1};
        const Write to{out, 1};
        neighbour_backward<LEFT>(line, Read{of_left.data(), 1}, from, to, sums.exists(0), sums.share(0, LEFT), 1);
        neighbour_backward<RIGHT>(line, Read{of_right.data(), 1}, from, to, sums.exists(0), sums.share(0, RIGHT), 1);
        if (form == REFERENCE) {
          for (std::int64_t i = 0; i < n; ++i) out[i] *= rivals.strength[i];
        }
        sums.into(line, mutable_data(of_exists) + n * row);
      }
    });
    return {of_scores, Tensor(), of_exists, Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

inline Tensor modulated(const Tensor& scores, const Tensor& eligible, const Tensor& exists, const Tensor& spans,
                        const Tensor& shares, std::int64_t form, double stretch) {
  for (const Tensor& given : {scores, eligible}) expect_fitting(given, exists);
  if (recording({scores, exists})) return Decide::apply(scores, eligible, exists, spans, shares, form, stretch);
  return decide(scores, eligible, exists, spans, shares, static_cast<Form>(form), static_cast<float>(stretch));
}

}  // namespace crvnn
