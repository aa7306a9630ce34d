// Hard inference: binary decisions, in which a position is composed with its right neighbour or is not.
#pragma once

#include <crvnn/common.h>

namespace crvnn {

// From c and the probability of not having been composed before this step [B, n], returns [B, n] each: that probability
// after it; which positions join their right neighbour; left(c), 1 at the positions that receive one; which positions are
// kept; existence, 1 at kept tokens. A position joins when its probability is at most 0.5 or its sequence is closing [B];
// of a run of adjacent candidates only the leftmost joins.
inline std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> join(const Tensor& c_, const Tensor& before,
                                                               const Tensor& eligible, const Tensor& tokens,
                                                               const Tensor& present, const Tensor& closing) {
  const std::int64_t batch = c_.size(0), n = c_.size(1);
  const Tensor remaining = at::empty_like(before), left_c = at::empty_like(before), exists = at::empty_like(before);
  const Tensor joins = at::empty_like(present), kept = at::empty_like(present);
  for (std::int64_t row = 0; row < batch; ++row) {
    const std::int64_t start = n * row;
    const float *c = data(c_) + start, *p_before = data(before) + start;
    const bool* is_eligible = eligible.const_data_ptr<bool>() + start;
    const bool* is_token = tokens.const_data_ptr<bool>() + start;
    const bool* is_present = present.const_data_ptr<bool>() + start;
    const bool is_closing = closing.const_data_ptr<bool>()[row];
    float *p = mutable_data(remaining) + start, *g = mutable_data(left_c) + start, *e = mutable_data(exists) + start;
    bool *is_joining = joins.mutable_data_ptr<bool>() + start, *is_kept = kept.mutable_data_ptr<bool>() + start;
    bool left_is_candidate = false, left_joins = false;
    for (std::int64_t i = 0; i < n; ++i) {
      p[i] = p_before[i] * (1 - c[i]);
      const bool candidate = is_eligible[i] && (is_closing || p[i] <= 0.5f);
      is_joining[i] = candidate && !left_is_candidate;
      is_kept[i] = is_present[i] && !is_joining[i];
      e[i] = is_kept[i] && is_token[i] ? 1 : 0;
      g[i] = left_joins ? 1 : 0;
      left_is_candidate = candidate;
      left_joins = is_joining[i];
    }
  }
  return {remaining, joins, left_c, kept, exists};
}

}  // namespace crvnn
