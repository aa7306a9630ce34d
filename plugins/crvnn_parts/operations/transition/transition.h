// The transition of a step, where neighbours are intervals: from decisions c to left(c) and existence e (1 - c), in one
// pass over each sequence [B, n].
#pragma once

#include "../intervals/intervals.h"

namespace crvnn {

// Returns c, 0 where a position is not eligible; left(c), 0 where it is not a token; and e (1 - c); [B, n] each. The
// intervals are those of interval_exists, the tensor that the neighbourhood was made from; it has a gradient of its own.
inline std::tuple<Tensor, Tensor, Tensor> next_state(const Tensor& given_c, const Tensor& exists, const Tensor& eligible,
                                                     const Tensor& tokens, const Tensor& interval_exists,
                                                     const Tensor& bounds, const Tensor& fractions) {
  const std::int64_t batch = exists.size(0), n = exists.size(1);
  const Tensor masked_c = at::empty_like(exists), left_c = at::empty_like(exists), after = at::empty_like(exists);
  over_rows(batch, 16 * n, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t row = first; row < last; ++row) {
      const float *from = data(given_c) + n * row, *e = data(exists) + n * row;
      const bool* is_eligible = eligible.const_data_ptr<bool>() + n * row;
      const bool* is_token = tokens.const_data_ptr<bool>() + n * row;
      float *c = mutable_data(masked_c) + n * row, *g = mutable_data(left_c) + n * row;
      float* left = mutable_data(after) + n * row;
      for (std::int64_t i = 0; i < n; ++i) c[i] = is_eligible[i] ? from[i] : 0;
      neighbour<LEFT>(Intervals(interval_exists, bounds, fractions, row), Read{c, 1}, Write{g, 1}, 1);
      for (std::int64_t i = 0; i < n; ++i) {
        g[i] = is_token[i] ? g[i] : 0;
        left[i] = e[i] - e[i] * c[i];
      }
    }
  });
  return {masked_c, left_c, after};
}

struct Transition : torch::autograd::Function<Transition> {
  static variable_list forward(AutogradContext* context, const Tensor& given_c, const Tensor& exists,
                               const Tensor& eligible, const Tensor& tokens, const Tensor& interval_exists,
                               const Tensor& bounds, const Tensor& fractions) {
    at::AutoDispatchBelowADInplaceOrView below;
    const auto [masked_c, left_c, after] =
        next_state(given_c, exists, eligible, tokens, interval_exists, bounds, fractions);
    context->save_for_backward({masked_c, exists, eligible, tokens, interval_exists, bounds, fractions});
    context->set_materialize_grads(false);
    return {masked_c, left_c, after};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = saved_tensors(context, gradients);
    at::AutoDispatchBelowADInplaceOrView below;
    const Tensor &masked_c = saved[0], &exists = saved[1], &interval_exists = saved[4];
    const std::int64_t batch = exists.size(0), n = exists.size(1);
    const auto given = [&](std::size_t i) {
      return gradients[i].defined() ? gradients[i].contiguous() : at::zeros_like(exists);
    };
    const Tensor of_masked_c = given(0), of_left_c = given(1), of_after = given(2);
    const Tensor of_c = at::empty_like(exists), of_exists = at::empty_like(exists);
    const Tensor of_interval_exists = at::empty_like(exists);
    over_rows(batch, 32 * n, [&](std::int64_t first, std::int64_t last) {
      std::vector<float> masked(n);
      for (std::int64_t row = first; row < last; ++row) {
        const Intervals intervals(interval_exists, saved[5], saved[6], row);
        const float *c = data(masked_c) + n * row, *e = data(exists) + n * row, *left = data(of_after) + n * row;
        const float *direct = data(of_masked_c) + n * row, *g = data(of_left_c) + n * row;
        const bool* is_eligible = saved[2].const_data_ptr<bool>() + n * row;
        const bool* is_token = saved[3].const_data_ptr<bool>() + n * row;
        float *to = mutable_data(of_c) + n * row, *to_exists = mutable_data(of_exists) + n * row;
        for (std::int64_t i = 0; i < n; ++i) {
          masked[i] = is_token[i] ? g[i] : 0;
          to[i] = direct[i] - left[i] * e[i];
          to_exists[i] = left[i] - left[i] * c[i];
        }
        ExistenceGradients sums(n, 1);
        neighbour_backward<LEFT>(intervals, Read{masked.data(), 1}, Read{c, 1}, Write{to, 1}, sums.exists(0),
                                 sums.fraction(0, LEFT), 1);
        sums.reduce(intervals, mutable_data(of_interval_exists) + n * row);
        for (std::int64_t i = 0; i < n; ++i) to[i] = is_eligible[i] ? to[i] : 0;
      }
    });
    return {of_c, of_exists, Tensor(), Tensor(), of_interval_exists, Tensor(), Tensor()};
  }
};

// The operator: the same, recorded by autograd.
inline std::tuple<Tensor, Tensor, Tensor> transition(const Tensor& given_c, const Tensor& exists, const Tensor& eligible,
                                                     const Tensor& tokens, const Tensor& interval_exists,
                                                     const Tensor& bounds, const Tensor& fractions) {
  for (const Tensor& given : {given_c, exists, eligible, tokens}) check_shape(given, interval_exists);
  if (!recording({given_c, exists, interval_exists})) {
    return next_state(given_c, exists, eligible, tokens, interval_exists, bounds, fractions);
  }
  const variable_list next = Transition::apply(given_c, exists, eligible, tokens, interval_exists, bounds, fractions);
  return {next[0], next[1], next[2]};
}

}  // namespace crvnn
