// Nodes: some of them, and parents in their places.
#pragma once

#include <crvnn/common.h>

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
    const variable_list saved = saved_by(context, gradients);
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
void over_parents(const Tensor& left_c, const std::optional<Tensor>& where, std::int64_t d, const Work& work) {
  const Tensor places = where ? checked(*where, left_c.numel()) : Tensor();
  const std::int64_t* index = where ? places.const_data_ptr<std::int64_t>() : nullptr;
  over_rows(where ? places.numel() : left_c.numel(), 2 * d, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) work(i, index ? index[i] : i);
  });
}

inline Tensor blended(const Tensor& nodes, const Tensor& parents, const Tensor& left_c,
                      const std::optional<Tensor>& where) {
  const std::int64_t d = nodes.size(-1);
  const Tensor found = where ? nodes.clone() : at::empty_like(nodes);
  const float *own = data(nodes), *other = data(parents), *by = data(left_c);
  float* to = mutable_data(found);
  over_parents(left_c, where, d, [&](std::int64_t i, std::int64_t at) {
    const float *node = own + d * at, *parent = other + d * i;
    const float share = by[at], rest = 1 - share;
    float* out = to + d * at;
#pragma omp simd
    for (std::int64_t j = 0; j < d; ++j) out[j] = rest * node[j] + share * parent[j];
  });
  return found;
}

struct Blend : torch::autograd::Function<Blend> {
  static Tensor forward(AutogradContext* context, const Tensor& nodes, const Tensor& parents, const Tensor& left_c,
                        const std::optional<Tensor>& where) {
    at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({nodes, parents, left_c, where.value_or(Tensor())});
    return blended(nodes, parents, left_c, where);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = saved_by(context, gradients);
    at::AutoDispatchBelowADInplaceOrView below;
    const Tensor &nodes = saved[0], &parents = saved[1], &left_c = saved[2];
    const std::optional<Tensor> where = saved[3].defined() ? std::optional<Tensor>(saved[3]) : std::nullopt;
    const Tensor gradient = gradients[0].contiguous();
    const std::int64_t d = nodes.size(-1);
    const Tensor of_nodes = where ? gradient.clone() : at::empty_like(nodes), of_parents = at::empty_like(parents);
    const Tensor of_left_c = where ? at::zeros_like(left_c) : at::empty_like(left_c);
    const float *own = data(nodes), *other = data(parents), *by = data(left_c), *g = data(gradient);
    float *to_nodes = mutable_data(of_nodes), *to_parents = mutable_data(of_parents), *to = mutable_data(of_left_c);
    over_parents(left_c, where, d, [&](std::int64_t i, std::int64_t at) {
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
    return {of_nodes, of_parents, of_left_c, Tensor()};
  }
};

// Parents in the measure of left(c), the nodes as they were in the rest: nodes [B, n, s], left_c [B, n]; parents of all
// nodes, or [m, s] of those that stand at the places where [m].
inline Tensor blend(const Tensor& nodes, const Tensor& parents, const Tensor& left_c,
                    const std::optional<Tensor>& where) {
  if (recording({nodes, parents, left_c})) return Blend::apply(nodes, parents, left_c, where);
  return blended(nodes, parents, left_c, where);
}

// Which positions go on [B, n]: what exists, and all that is not eligible to be composed. And for every sequence the
// answer of the halting, how many positions stay, and how many of these may not exist [3, B].
inline std::tuple<Tensor, Tensor> survey(const Tensor& willing, const Tensor& exists, const Tensor& present,
                                         const Tensor& eligible) {
  const std::int64_t batch = exists.size(0), n = exists.size(1);
  const Tensor staying = at::empty_like(present), facts = at::empty({3, batch}, exists.options().dtype(at::kLong));
  const float* e = data(exists);
  const bool *here = present.const_data_ptr<bool>(), *may = eligible.const_data_ptr<bool>();
  bool* stays = staying.mutable_data_ptr<bool>();
  std::int64_t* found = facts.mutable_data_ptr<std::int64_t>();
  for (std::int64_t row = 0; row < batch; ++row) {
    std::int64_t stay = 0, doubtful = 0;
    for (std::int64_t i = n * row; i < n * (row + 1); ++i) {
      stays[i] = here[i] && (e[i] != 0 || !may[i]);
      stay += stays[i];
      doubtful += stays[i] && e[i] != 1;
    }
    found[row] = willing.const_data_ptr<bool>()[row];
    found[batch + row] = stay;
    found[2 * batch + row] = doubtful;
  }
  return {staying, facts};
}

// The places [m], counted through all sequences, where left(c) times what still exists is above a tolerance.
inline Tensor changing(const Tensor& left_c, const Tensor& exists, double tolerance) {
  const float *g = data(left_c), *e = data(exists), least = static_cast<float>(tolerance);
  const std::int64_t count = left_c.numel();
  std::vector<std::int64_t> found;
  for (std::int64_t i = 0; i < count; ++i) {
    if (g[i] * e[i] > least) found.push_back(i);
  }
  const Tensor places = at::empty({static_cast<std::int64_t>(found.size())}, left_c.options().dtype(at::kLong));
  std::copy(found.begin(), found.end(), places.mutable_data_ptr<std::int64_t>());
  return places;
}

// Some sequences, and of each the positions that stay, then some that do not as padding: places [B', size] within a
// sequence, the same counted through all sequences, and which are no padding.
struct Kept {
  Tensor order, flat, present;
};

inline Kept kept(const Tensor& staying, at::IntArrayRef chosen, std::int64_t size) {
  const std::int64_t batch = chosen.size(), n = staying.size(1);
  TORCH_CHECK(size <= n, size, " positions cannot stay of ", n);
  const Tensor order = at::empty({batch, size}, staying.options().dtype(at::kLong));
  const Kept made{order, at::empty_like(order), at::empty({batch, size}, staying.options())};
  for (std::int64_t row = 0; row < batch; ++row) {
    TORCH_CHECK_INDEX(chosen[row] >= 0 && chosen[row] < staying.size(0), "there is no sequence ", chosen[row]);
    const bool* stays = staying.const_data_ptr<bool>() + n * chosen[row];
    std::int64_t *to = made.order.mutable_data_ptr<std::int64_t>() + size * row, count = 0;
    std::int64_t* through = made.flat.mutable_data_ptr<std::int64_t>() + size * row;
    bool* here = made.present.mutable_data_ptr<bool>() + size * row;
    for (std::int64_t i = 0; i < n && count < size; ++i) {
      if (stays[i]) to[count++] = i;
    }
    std::fill(here, here + count, true);
    std::fill(here + count, here + size, false);
    for (std::int64_t i = 0; i < n && count < size; ++i) {
      if (!stays[i]) to[count++] = i;
    }
    for (std::int64_t i = 0; i < size; ++i) through[i] = to[i] + n * chosen[row];
  }
  return made;
}

// What stands at some places of numbers or flags [B, n].
template <class Number>
Tensor few(const Tensor& values, const Kept& kept, bool masked) {
  const Tensor found = at::empty(kept.flat.sizes(), values.options());
  const Number* from = values.const_data_ptr<Number>();
  const std::int64_t* at = kept.flat.const_data_ptr<std::int64_t>();
  const bool* here = kept.present.const_data_ptr<bool>();
  Number* to = found.mutable_data_ptr<Number>();
  for (std::int64_t i = 0; i < found.numel(); ++i) to[i] = !masked || here[i] ? from[at[i]] : Number(0);
  return found;
}

struct Narrow : torch::autograd::Function<Narrow> {
  static variable_list forward(AutogradContext* context, const Tensor& nodes, const Tensor& exists,
                               const Tensor& left_c, const Kept& kept) {
    at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({kept.flat, kept.present});
    context->saved_data["shape"] = nodes.sizes().vec();
    context->set_materialize_grads(false);
    return {nodes_at(nodes, kept), few<float>(exists, kept, true), few<float>(left_c, kept, false)};
  }

  static Tensor nodes_at(const Tensor& nodes, const Kept& kept) {
    return rows_at(nodes, kept.flat).view({kept.flat.size(0), kept.flat.size(1), nodes.size(-1)});
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = saved_by(context, gradients);
    at::AutoDispatchBelowADInplaceOrView below;
    const std::vector<std::int64_t> shape = context->saved_data["shape"].toIntVector();
    const auto back = [&](const Tensor& gradient) {
      return gradient.defined() ? rows_back(gradient, saved[0], {shape[0], shape[1], 1}).squeeze(-1) : Tensor();
    };
    const Tensor of_nodes = gradients[0].defined() ? rows_back(gradients[0], saved[0], shape) : Tensor();
    return {of_nodes, back(gradients[1].defined() ? gradients[1] * saved[1] : Tensor()), back(gradients[2]), Tensor()};
  }
};

// Of nodes [B, n, s], what exists and left(c) [B, n], flags and places [B, n] only some sequences, and of each the
// positions that stay: at most size. Padding does not exist and is no token. Behind the first three stands which positions
// are no padding, and at the end where they were.
inline std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> narrow(
    const Tensor& nodes, const Tensor& exists, const Tensor& left_c, const Tensor& staying, const Tensor& tokens,
    const Tensor& eligible, const Tensor& place, at::IntArrayRef chosen, std::int64_t size) {
  const Kept some = kept(staying, chosen, size);
  const variable_list found =
      recording({nodes, exists, left_c})
          ? Narrow::apply(nodes, exists, left_c, some)
          : variable_list{Narrow::nodes_at(nodes, some), few<float>(exists, some, true), few<float>(left_c, some, false)};
  return {found[0],
          found[1],
          found[2],
          some.present,
          few<bool>(tokens, some, true),
          few<bool>(eligible, some, true),
          few<std::int64_t>(place, some, false),
          some.order};
}

}  // namespace crvnn
