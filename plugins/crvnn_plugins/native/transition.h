// From decisions c to left(c) and what exists then, where neighbours are intervals.
#pragma once

#include "intervals.h"

namespace crvnn {

// One step's decisions c [B, n], with nothing where a position is not eligible; left(c), with nothing where there is no
// token; and what exists then, e (1 - c).
inline std::tuple<Tensor, Tensor, Tensor> advanced(const Tensor& compose, const Tensor& exists, const Tensor& eligible,
                                                   const Tensor& tokens, const Tensor& along, const Tensor& spans,
                                                   const Tensor& shares) {
  const std::int64_t batch = exists.size(0), n = exists.size(1);
  const Tensor chosen = at::empty_like(exists), left_c = at::empty_like(exists), after = at::empty_like(exists);
  over_rows(batch, 16 * n, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t row = first; row < last; ++row) {
      const float *from = data(compose) + n * row, *e = data(exists) + n * row;
      const bool* may = eligible.const_data_ptr<bool>() + n * row;
      const bool* token = tokens.const_data_ptr<bool>() + n * row;
      float *c = mutable_data(chosen) + n * row, *g = mutable_data(left_c) + n * row;
      float* left = mutable_data(after) + n * row;
      for (std::int64_t i = 0; i < n; ++i) c[i] = may[i] ? from[i] : 0;
      neighbour<LEFT>(Line(along, spans, shares, row), Read{c, 1}, Write{g, 1}, 1);
      for (std::int64_t i = 0; i < n; ++i) {
        g[i] = token[i] ? g[i] : 0;
        left[i] = e[i] - e[i] * c[i];
      }
    }
  });
  return {chosen, left_c, after};
}

struct Advance : torch::autograd::Function<Advance> {
  static variable_list forward(AutogradContext* context, const Tensor& compose, const Tensor& exists,
                               const Tensor& eligible, const Tensor& tokens, const Tensor& along, const Tensor& spans,
                               const Tensor& shares) {
    at::AutoDispatchBelowADInplaceOrView below;
    const auto [chosen, left_c, after] = advanced(compose, exists, eligible, tokens, along, spans, shares);
    context->save_for_backward({chosen, exists, eligible, tokens, along, spans, shares});
    context->set_materialize_grads(false);
    return {chosen, left_c, after};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = saved_by(context, gradients);
    at::AutoDispatchBelowADInplaceOrView below;
    const Tensor &chosen = saved[0], &exists = saved[1], &along = saved[4];
    const std::int64_t batch = exists.size(0), n = exists.size(1);
    const auto given = [&](std::size_t i) {
      return gradients[i].defined() ? gradients[i].contiguous() : at::zeros_like(exists);
    };
    const Tensor of_chosen = given(0), of_left_c = given(1), of_after = given(2);
    const Tensor of_compose = at::empty_like(exists), of_exists = at::empty_like(exists);
    const Tensor of_along = at::empty_like(exists);
    over_rows(batch, 32 * n, [&](std::int64_t first, std::int64_t last) {
      std::vector<float> masked(n);
      for (std::int64_t row = first; row < last; ++row) {
        const Line line(along, saved[5], saved[6], row);
        const float *c = data(chosen) + n * row, *e = data(exists) + n * row, *left = data(of_after) + n * row;
        const float *direct = data(of_chosen) + n * row, *g = data(of_left_c) + n * row;
        const bool* may = saved[2].const_data_ptr<bool>() + n * row;
        const bool* token = saved[3].const_data_ptr<bool>() + n * row;
        float *to = mutable_data(of_compose) + n * row, *to_exists = mutable_data(of_exists) + n * row;
        for (std::int64_t i = 0; i < n; ++i) {
          masked[i] = token[i] ? g[i] : 0;
          to[i] = direct[i] - left[i] * e[i];
          to_exists[i] = left[i] - left[i] * c[i];
        }
        OfExists sums(n, 1);
        neighbour_backward<LEFT>(line, Read{masked.data(), 1}, Read{c, 1}, Write{to, 1}, sums.exists(0),
                                 sums.share(0, LEFT), 1);
        sums.into(line, mutable_data(of_along) + n * row);
        for (std::int64_t i = 0; i < n; ++i) to[i] = may[i] ? to[i] : 0;
      }
    });
    return {of_compose, of_exists, Tensor(), Tensor(), of_along, Tensor(), Tensor()};
  }
};

inline std::tuple<Tensor, Tensor, Tensor> advance(const Tensor& compose, const Tensor& exists, const Tensor& eligible,
                                                  const Tensor& tokens, const Tensor& along, const Tensor& spans,
                                                  const Tensor& shares) {
  for (const Tensor& given : {compose, exists, eligible, tokens}) expect_fitting(given, along);
  if (!recording({compose, exists, along})) return advanced(compose, exists, eligible, tokens, along, spans, shares);
  const variable_list found = Advance::apply(compose, exists, eligible, tokens, along, spans, shares);
  return {found[0], found[1], found[2]};
}

}  // namespace crvnn
