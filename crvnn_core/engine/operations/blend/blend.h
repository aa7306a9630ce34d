// The blend of nodes and parents (Eq. 3), everywhere or in some rows.
#pragma once

#include "../rows/rows.h"

namespace crvnn {

// Calls work(index of a parent, row index of its node) for all parents: of every row, or of the given ones.
template <class Work>
void over_parents(const Tensor& left_c, const std::optional<Tensor>& rows, std::int64_t d, const Work& work) {
  const Tensor checked = rows ? checked_rows(*rows, left_c.numel()) : Tensor();
  const std::int64_t* row = rows ? checked.const_data_ptr<std::int64_t>() : nullptr;
  over_rows(rows ? checked.numel() : left_c.numel(), 2 * d, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) work(i, row ? row[i] : i);
  });
}

inline Tensor blended(const Tensor& nodes, const Tensor& parents, const Tensor& left_c,
                      const std::optional<Tensor>& rows) {
  const std::int64_t d = nodes.size(-1);
  const Tensor result = rows ? nodes.clone() : at::empty_like(nodes);
  const float *all_nodes = data(nodes), *all_parents = data(parents), *weights = data(left_c);
  float* to = mutable_data(result);
  over_parents(left_c, rows, d, [&](std::int64_t i, std::int64_t row) {
    const float *node = all_nodes + d * row, *parent = all_parents + d * i;
    const float weight = weights[row], rest = 1 - weight;
    float* out = to + d * row;
#pragma omp simd
    for (std::int64_t j = 0; j < d; ++j) out[j] = rest * node[j] + weight * parent[j];
  });
  return result;
}

struct Blend : torch::autograd::Function<Blend> {
  static Tensor forward(AutogradContext* context, const Tensor& nodes, const Tensor& parents, const Tensor& left_c,
                        const std::optional<Tensor>& rows) {
    at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({nodes, parents, left_c, rows.value_or(Tensor())});
    return blended(nodes, parents, left_c, rows);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = saved_tensors(context, gradients);
    at::AutoDispatchBelowADInplaceOrView below;
    const Tensor &nodes = saved[0], &parents = saved[1], &left_c = saved[2];
    const std::optional<Tensor> rows = saved[3].defined() ? std::optional<Tensor>(saved[3]) : std::nullopt;
    const Tensor gradient = gradients[0].contiguous();
    const std::int64_t d = nodes.size(-1);
    const Tensor of_nodes = rows ? gradient.clone() : at::empty_like(nodes), of_parents = at::empty_like(parents);
    const Tensor of_left_c = rows ? at::zeros_like(left_c) : at::empty_like(left_c);
    const float *all_nodes = data(nodes), *all_parents = data(parents), *weights = data(left_c);
    const float* all_gradients = data(gradient);
    float *to_nodes = mutable_data(of_nodes), *to_parents = mutable_data(of_parents), *to = mutable_data(of_left_c);
    over_parents(left_c, rows, d, [&](std::int64_t i, std::int64_t row) {
      const float *node = all_nodes + d * row, *parent = all_parents + d * i, *g = all_gradients + d * row;
      const float weight = weights[row], rest = 1 - weight;
      float *of_node = to_nodes + d * row, *of_parent = to_parents + d * i;
      float dot = 0;
#pragma omp simd reduction(+ : dot)
      for (std::int64_t j = 0; j < d; ++j) {
        of_node[j] = rest * g[j];
        of_parent[j] = weight * g[j];
        dot += g[j] * (parent[j] - node[j]);
      }
      to[row] = dot;
    });
    return {of_nodes, of_parents, of_left_c, Tensor()};
  }
};

// Returns left(c) parents + (1 - left(c)) nodes [B, n, s] (Eq. 3), for left_c [B, n]. With rows [m], parents are [m, s]
// and the other nodes are copied.
inline Tensor blend(const Tensor& nodes, const Tensor& parents, const Tensor& left_c,
                    const std::optional<Tensor>& rows) {
  if (recording({nodes, parents, left_c})) return Blend::apply(nodes, parents, left_c, rows);
  return blended(nodes, parents, left_c, rows);
}

}  // namespace crvnn
