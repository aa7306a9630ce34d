// Modulated decisions: composition probabilities c [B, n] from scores u [B, n], where neighbours are intervals. c_i is
// exp(u_i) over the sum of exp(u_i), its soft neighbours' and 1, computed with a maximum subtracted to avoid overflow.
#pragma once

#include <crvnn/activation.h>

#include "../intervals/intervals.h"

namespace crvnn {

// The neighbours' terms of the sum: exp(left(u)) as in the paper, or left(exp(u)). The latter either as in the published
// code, the reference, or bounded. The two numbers are also in __init__.py; docs/explanation/presets.md gives
// the reasons.
enum Form { PAPER, BOUNDED, REFERENCE };

// Above this score exp(u) of the bounded form goes on along its tangent, which bounds dc/de.
constexpr float LINEAR_ABOVE = 12;

// What the published code adds to the sum, relative to exp(the highest score of the sequence, or 0).
constexpr float GUARD = 4e-8f;

// Returns the log of the bounded form's function of u, and its derivative.
inline float bounded(float score) {
  return score > LINEAR_ABOVE ? LINEAR_ABOVE + std::log1p(score - LINEAR_ABOVE) : score;  // propagates NaN
}
inline float bounded_slope(float score) { return score > LINEAR_ABOVE ? 1 / (1 + score - LINEAR_ABOVE) : 1; }

// The exponentials of one sequence [n]: of the left and right neighbours and of the position itself, with the maximum of
// these subtracted (paper) or that of all positions (bounded, reference).
struct Exponentials {
  std::vector<float> left, right, own;
  float highest = 0, others = 0;  // that maximum, and the terms that every position's sum has (bounded, reference)
  explicit Exponentials(std::int64_t n) : left(n), right(n), own(n) {}
};

// Writes c to out [n], and the reciprocal of each sum.
inline void modulate_row(const Intervals& intervals, const float* scores, const bool* eligible, Form form,
                         Exponentials& exps, float* out, float* reciprocal) {
  const std::int64_t n = intervals.n;
  if (form != PAPER) {
    float highest = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const bool counts = eligible[i] || (form == REFERENCE && intervals.exists[i] > 0);
      if (counts && highest == highest && !(scores[i] <= highest)) highest = scores[i];  // propagates NaN
    }
    exps.highest = form == BOUNDED ? bounded(highest) : highest;
    exps.others = std::exp(-exps.highest) + (form == REFERENCE ? GUARD : 0);
    for (std::int64_t i = 0; i < n; ++i) {
      const float score = form == BOUNDED ? bounded(scores[i]) : scores[i];
      exps.own[i] = eligible[i] ? std::exp(score - exps.highest) : 0;
    }
    scores = exps.own.data();
  }
  const Read from{scores, 1};
  neighbour<LEFT>(intervals, from, Write{exps.left.data(), 1}, 1);
  neighbour<RIGHT>(intervals, from, Write{exps.right.data(), 1}, 1);
  for (std::int64_t i = 0; i < n; ++i) {
    float &left = exps.left[i], &right = exps.right[i];
    if (form == PAPER) {
      const float maximum = std::max(std::max(left, right), std::max(scores[i], 0.0f));
      left = std::exp(left - maximum);
      right = std::exp(right - maximum);
      exps.own[i] = std::exp(scores[i] - maximum);
      reciprocal[i] = 1 / (exps.own[i] + left + right + std::exp(-maximum));
    } else {
      reciprocal[i] = 1 / (exps.own[i] + left + right + exps.others);
    }
    out[i] = eligible[i] ? exps.own[i] * reciprocal[i] : 0;
  }
}

// The guard is relative to exp(the highest score): adds its gradient to that of the highest score, or shares it among
// equal ones.
inline void guard_backward(const Intervals& intervals, const float* scores, const bool* eligible, float highest,
                           float gradient, float* of_scores) {
  const auto is_highest = [&](std::int64_t i) {
    return scores[i] == highest && highest > 0 && (eligible[i] || intervals.exists[i] > 0);
  };
  std::int64_t equal = 0;
  for (std::int64_t i = 0; i < intervals.n; ++i) equal += is_highest(i);
  for (std::int64_t i = 0; i < intervals.n; ++i) {
    if (is_highest(i)) of_scores[i] += gradient / equal;
  }
}

// Returns a decision stretched to [-stretch, 1 + stretch], before it is clipped to [0, 1].
inline float stretched(float c, float stretch) { return (1 + 2 * stretch) * c - stretch; }

// Returns c [B, n] from scores [B, n], stretched and clipped if stretch > 0.
inline Tensor modulate(const Tensor& scores, const Tensor& eligible, const Tensor& exists, const Tensor& bounds,
                       const Tensor& fractions, Form form, float stretch) {
  const std::int64_t batch = scores.size(0), n = scores.size(1);
  const Tensor result = at::empty_like(scores);
  over_rows(batch, 64 * n, [&](std::int64_t first, std::int64_t last) {
    Exponentials exps(n);
    std::vector<float> reciprocal(n);
    for (std::int64_t row = first; row < last; ++row) {
      modulate_row(Intervals(exists, bounds, fractions, row), data(scores) + n * row,
                   eligible.const_data_ptr<bool>() + n * row, form, exps, mutable_data(result) + n * row,
                   reciprocal.data());
    }
  });
  if (stretch) {
    float* c = mutable_data(result);
    for (std::int64_t i = 0; i < batch * n; ++i) {
      const float unclipped = stretched(c[i], stretch);
      c[i] = unclipped < 0 ? 0 : unclipped > 1 ? 1 : unclipped;  // propagates NaN
    }
  }
  return result;
}

struct Modulate : torch::autograd::Function<Modulate> {
  static Tensor forward(AutogradContext* context, const Tensor& scores, const Tensor& eligible, const Tensor& exists,
                        const Tensor& bounds, const Tensor& fractions, std::int64_t form, double stretch) {
    at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({scores, eligible, exists, bounds, fractions});
    context->saved_data["form"] = form;
    context->saved_data["stretch"] = stretch;
    return modulate(scores, eligible, exists, bounds, fractions, static_cast<Form>(form), static_cast<float>(stretch));
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = saved_tensors(context, gradients);
    at::AutoDispatchBelowADInplaceOrView below;
    const Tensor &scores = saved[0], &exists = saved[2];
    const Form form = static_cast<Form>(context->saved_data["form"].toInt());
    const float stretch = static_cast<float>(context->saved_data["stretch"].toDouble());
    const Tensor gradient = gradients[0].contiguous();
    const std::int64_t batch = scores.size(0), n = scores.size(1);
    const Tensor of_scores = at::empty_like(scores), of_exists = at::empty_like(exists);
    over_rows(batch, 128 * n, [&](std::int64_t first, std::int64_t last) {
      Exponentials exps(n);
      std::vector<float> reciprocal(n), c(n), of_left(n), of_right(n);
      for (std::int64_t row = first; row < last; ++row) {
        const Intervals intervals(exists, saved[3], saved[4], row);
        const float *u = data(scores) + n * row, *g = data(gradient) + n * row;
        const bool* eligible = saved[1].const_data_ptr<bool>() + n * row;
        float* out = mutable_data(of_scores) + n * row;
        modulate_row(intervals, u, eligible, form, exps, c.data(), reciprocal.data());
        float of_others = 0;
        for (std::int64_t i = 0; i < n; ++i) {
          const float unclipped = stretched(c[i], stretch);
          const float given = unclipped < 0 || unclipped > 1 ? 0 : (1 + 2 * stretch) * g[i];
          const float weighted = given * c[i];
          if (form == PAPER) {
            out[i] = weighted * (1 - c[i]);
            of_left[i] = -weighted * exps.left[i] * reciprocal[i];
            of_right[i] = -weighted * exps.right[i] * reciprocal[i];
          } else {
            const float rivals = exps.left[i] + exps.right[i] + exps.others;  // over the sum it is 1 - c, not rounded
            out[i] = eligible[i] ? given * reciprocal[i] * (rivals * reciprocal[i]) : 0;
            of_left[i] = of_right[i] = -weighted * reciprocal[i];
            of_others += of_left[i];
          }
        }
        ExistenceGradients sums(n, 1);
        const Read from{form == PAPER ? u : exps.own.data(), 1};
        const Write to{out, 1};
        neighbour_backward<LEFT>(intervals, Read{of_left.data(), 1}, from, to, sums.exists(0),
                                 sums.fraction(0, LEFT), 1);
        neighbour_backward<RIGHT>(intervals, Read{of_right.data(), 1}, from, to, sums.exists(0),
                                  sums.fraction(0, RIGHT), 1);
        if (form == BOUNDED) {
          for (std::int64_t i = 0; i < n; ++i) out[i] *= exps.own[i] * bounded_slope(u[i]);
        } else if (form == REFERENCE) {
          for (std::int64_t i = 0; i < n; ++i) out[i] *= exps.own[i];
          guard_backward(intervals, u, eligible, exps.highest, GUARD * of_others, out);
        }
        sums.reduce(intervals, mutable_data(of_exists) + n * row);
      }
    });
    return {of_scores, Tensor(), of_exists, Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

// The operator: the same, recorded by autograd.
inline Tensor modulated(const Tensor& scores, const Tensor& eligible, const Tensor& exists, const Tensor& bounds,
                        const Tensor& fractions, std::int64_t form, double stretch) {
  for (const Tensor& given : {scores, eligible}) check_shape(given, exists);
  if (recording({scores, exists})) return Modulate::apply(scores, eligible, exists, bounds, fractions, form, stretch);
  return modulate(scores, eligible, exists, bounds, fractions, static_cast<Form>(form), static_cast<float>(stretch));
}

}  // namespace crvnn
