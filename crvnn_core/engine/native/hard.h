// Decisions for real: who joins his right neighbour.
#pragma once

#include <crvnn/common.h>

namespace crvnn {

// From c and the chance of not having been composed before [B, n]: that chance now; who joins; who receives; who stays;
// and which tokens stay, as numbers. A position joins when its chance has come down to a half (or its sequence is
// closing), unless the one to its left joins it.
inline std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> join(const Tensor& compose, const Tensor& before,
                                                               const Tensor& eligible, const Tensor& tokens,
                                                               const Tensor& present,
                                                               const std::optional<Tensor>& closing) {
  const std::int64_t batch = compose.size(0), n = compose.size(1);
  const Tensor chance = at::empty_like(before), left_c = at::empty_like(before), exists = at::empty_like(before);
  const Tensor joins = at::empty_like(present), staying = at::empty_like(present);
  for (std::int64_t row = 0; row < batch; ++row) {
    const std::int64_t start = n * row;
    const float *c = data(compose) + start, *was = data(before) + start;
    const bool* may = eligible.const_data_ptr<bool>() + start;
    const bool* token = tokens.const_data_ptr<bool>() + start;
    const bool* here = present.const_data_ptr<bool>() + start;
    const bool over = closing && closing->const_data_ptr<bool>()[row];
    float *is = mutable_data(chance) + start, *receives = mutable_data(left_c) + start;
    float* left = mutable_data(exists) + start;
    bool *leaves = joins.mutable_data_ptr<bool>() + start, *stays = staying.mutable_data_ptr<bool>() + start;
    bool wished = false, left_joins = false;
    for (std::int64_t i = 0; i < n; ++i) {
      is[i] = was[i] * (1 - c[i]);
      const bool wish = may[i] && (over || is[i] <= 0.5f);
      leaves[i] = wish && !wished;
      stays[i] = here[i] && !leaves[i];
      left[i] = stays[i] && token[i] ? 1 : 0;
      receives[i] = left_joins ? 1 : 0;
      wished = wish;
      left_joins = leaves[i];
    }
  }
  return {chance, joins, left_c, staying, exists};
}

}  // namespace crvnn
