// Nodes: some of them, and parents in their places.
#pragma once

#include "common.h"

namespace crvnn {

// Places of rows, in one piece; there must be that many.
inline Tensor checked(const Tensor& places, std::int64_t rows) {
  const Tensor where = places.contiguous();
  const std::int64_t* index = where.const_data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < where.numel(); ++i) {
    TORCH_CHECK_INDEX(index[i] >= 0 && index[i] < rows, "place ", index[i], " is none of ", rows);
  }
  return where;
}

// Rows [m, d] of values [..., d].
inline Tensor rows_at(const Tensor& values, const Tensor& places) {
  const Tensor where = checked(places, values.numel() / values.size(-1));
  const std::int64_t count = where.numel(), d = values.size(-1);
  const Tensor found = at::empty({count, d}, values.options());
  const float* from = data(values);
  const std::int64_t* index = where.const_data_ptr<std::int64_t>();
  float* to = mutable_data(found);
  over_rows(count, d, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) std::copy_n(from + d * index[i], d, to + d * i);
  });
  return found;
}

// The transposed: zeros, with rows [m, d] put where they came from; each place is named once.
inline Tensor rows_back(const Tensor& rows, const Tensor& places, at::IntArrayRef shape) {
  const Tensor where = places.contiguous();
  const Tensor found = at::zeros(shape, rows.options());
  const std::int64_t count = where.numel(), d = shape.back();
  const Tensor given = rows.contiguous();
  const float* from = data(given);
  const std::int64_t* index = where.const_data_ptr<std::int64_t>();
  float* to = mutable_data(found);
  over_rows(count, d, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) std::copy_n(from + d * i, d, to + d * index[i]);
  });
  return found;
}

struct Pick : torch::autograd::Function<Pick> {
  static variable_list forward(AutogradContext* context, const Tensor& one, const Tensor& two, const Tensor& where) {
    at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({where});
    context->saved_data["shape"] = one.sizes().vec();
    context->set_materialize_grads(false);
    return {rows_at(one, where), rows_at(two, where)};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = saved_by(context);
    at::AutoDispatchBelowADInplaceOrView below;
    const std::vector<std::int64_t> shape = context->saved_data["shape"].toIntVector();
    const auto back = [&](const Tensor& rows) { return rows.defined() ? rows_back(rows, saved[0], shape) : Tensor(); };
    return {back(gradients[0]), back(gradients[1]), Tensor()};
  }
};

// Rows of two tensors [..., d] at the same places [m].
inline std::tuple<Tensor, Tensor> pick(const Tensor& one, const Tensor& two, const Tensor& where) {
  TORCH_CHECK(one.sizes() == two.sizes(), "rows of ", one.sizes(), " and of ", two.sizes());
  if (!recording({one, two})) return {rows_at(one, where), rows_at(two, where)};
  const variable_list found = Pick::apply(one, two, where);
  return {found[0], found[1]};
}

// Calls work(number of a parent, its place) for all of them.
template <class Work>
void over_parents(const Tensor& gained, const std::optional<Tensor>& where, std::int64_t d, const Work& work) {
  const Tensor places = where ? checked(*where, gained.numel()) : Tensor();
  const std::int64_t* index = where ? places.const_data_ptr<std::int64_t>() : nullptr;
  over_rows(where ? places.numel() : gained.numel(), 2 * d, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) work(i, index ? index[i] : i);
  });
}

inline Tensor blended(const Tensor& nodes, const Tensor& parents, const Tensor& gained,
                      const std::optional<Tensor>& where) {
  const std::int64_t d = nodes.size(-1);
  const Tensor found = where ? nodes.clone() : at::empty_like(nodes);
  const float *own = data(nodes), *other = data(parents), *by = data(gained);
  float* to = mutable_data(found);
  over_parents(gained, where, d, [&](std::int64_t i, std::int64_t at) {
    const float *node = own + d * at, *parent = other + d * i;
    const float share = by[at], rest = 1 - share;
    float* out = to + d * at;
#pragma omp simd
    for (std::int64_t j = 0; j < d; ++j) out[j] = rest * node[j] + share * parent[j];
  });
  return found;
}

struct Blend : torch::autograd::Function<Blend> {
  static Tensor forward(AutogradContext* context, const Tensor& nodes, const Tensor& parents, const Tensor& gained,
                        const std::optional<Tensor>& where) {
    at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({nodes, parents, gained, where.value_or(Tensor())});
    return blended(nodes, parents, gained, where);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = saved_by(context);
    at::AutoDispatchBelowADInplaceOrView below;
    const Tensor &nodes = saved[0], &parents = saved[1], &gained = saved[2];
    const std::optional<Tensor> where = saved[3].defined() ? std::optional<Tensor>(saved[3]) : std::nullopt;
    const Tensor gradient = gradients[0].contiguous();
    const std::int64_t d = nodes.size(-1);
    const Tensor of_nodes = where ? gradient.clone() : at::empty_like(nodes), of_parents = at::empty_like(parents);
    const Tensor of_gained = where ? at::zeros_like(gained) : at::empty_like(gained);
    const float *own = data(nodes), *other = data(parents), *by = data(gained), *g = data(gradient);
    float *to_nodes = mutable_data(of_nodes), *to_parents = mutable_data(of_parents), *to = mutable_data(of_gained);
    over_parents(gained, where, d, [&](std::int64_t i, std::int64_t at) {
      const float *node = own + d * at, *parent = other + d * i, *given = g + d * at;
      const float share = by[at], rest = 1 - share;
      float *of_node = to_nodes + d * at, *of_parent = to_parents + d * i;
      float dot = 0;
#pragma omp simd reduction(+ : dot)
      for (std::int64_t j = 0; j < d; ++j) {
        of_node[j] = rest * given[j];
        of_parent[j] = share * given[j];
        dot += given[j] * (parent[j] - node[j]);
      }
      to[at] = dot;
    });
    return {of_nodes, of_parents, of_gained, Tensor()};
  }
};

// Parents in the measure of left(c), the nodes as they were in the rest: nodes [B, n, s], gained [B, n]; parents of all
// nodes, or [m, s] of those that stand at the places where [m].
inline Tensor blend(const Tensor& nodes, const Tensor& parents, const Tensor& gained,
                    const std::optional<Tensor>& where) {
  if (recording({nodes, parents, gained})) return Blend::apply(nodes, parents, gained, where);
  return blended(nodes, parents, gained, where);
}

inline std::tuple<Tensor, Tensor, Tensor> narrowed(const Tensor& nodes, const Tensor& exists, const Tensor& gained,
                                                   const Tensor& order) {
  const std::int64_t batch = order.size(0), size = order.size(1), d = nodes.size(-1);
  const auto few = [&](const Tensor& all) { return rows_at(all.unsqueeze(-1), order).view({batch, size}); };
  return {rows_at(nodes, order).view({batch, size, d}), few(exists), few(gained)};
}

struct Narrow : torch::autograd::Function<Narrow> {
  static variable_list forward(AutogradContext* context, const Tensor& nodes, const Tensor& exists,
                               const Tensor& gained, const Tensor& order) {
    at::AutoDispatchBelowADInplaceOrView below;
    const auto [some, there, new_ones] = narrowed(nodes, exists, gained, order);
    context->save_for_backward({order});
    context->saved_data["shape"] = nodes.sizes().vec();
    context->set_materialize_grads(false);
    return {some, there, new_ones};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = saved_by(context);
    at::AutoDispatchBelowADInplaceOrView below;
    const std::vector<std::int64_t> shape = context->saved_data["shape"].toIntVector();
    const std::vector<std::int64_t> one{shape[0], shape[1], 1};
    const auto back = [&](const Tensor& gradient, const std::vector<std::int64_t>& to) {
      return gradient.defined() ? rows_back(gradient, saved[0], to) : Tensor();
    };
    const auto flat = [&](const Tensor& found) { return found.defined() ? found.squeeze(-1) : found; };
    return {back(gradients[0], shape), flat(back(gradients[1], one)), flat(back(gradients[2], one)), Tensor()};
  }
};

// Of nodes [B, n, s], what exists and left(c) [B, n] those at the places order [B', n'], counted through all sequences.
inline std::tuple<Tensor, Tensor, Tensor> narrow(const Tensor& nodes, const Tensor& exists, const Tensor& gained,
                                                 const Tensor& order) {
  if (!recording({nodes, exists, gained})) return narrowed(nodes, exists, gained, order);
  const variable_list found = Narrow::apply(nodes, exists, gained, order);
  return {found[0], found[1], found[2]};
}

}  // namespace crvnn
