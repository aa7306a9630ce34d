// Modulated decisions: from scores, where neighbours are intervals.
#pragma once

#include <crvnn/activation.h>

#include "intervals.h"

namespace crvnn {

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
