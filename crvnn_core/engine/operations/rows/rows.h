// Rows of nodes by index: selected, joined, and which of them change. Nodes are [B, n, s]; a row index is b n + i for
// position i of sequence b, and every row index occurs at most once in a list.
#pragma once

#include <crvnn/common.h>

namespace crvnn {

// Returns row indices as a contiguous tensor; raises IndexError if one is out of range.
inline Tensor checked_rows(const Tensor& rows, std::int64_t count) {
  const Tensor checked = rows.contiguous();
  const std::int64_t* row = checked.const_data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < checked.numel(); ++i) {
    TORCH_CHECK_INDEX(row[i] >= 0 && row[i] < count, "row index ", row[i], " is out of range for ", count, " rows");
  }
  return checked;
}

// Returns some rows of values [..., d], as [m, d].
inline Tensor select_rows(const Tensor& values, const Tensor& rows) {
  const Tensor checked = checked_rows(rows, values.numel() / values.size(-1));
  const std::int64_t count = checked.numel(), d = values.size(-1);
  const Tensor selected = at::empty({count, d}, values.options());
  const float* from = data(values);
  const std::int64_t* row = checked.const_data_ptr<std::int64_t>();
  float* to = mutable_data(selected);
  over_rows(count, d, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) std::copy_n(from + d * row[i], d, to + d * i);
  });
  return selected;
}

// The transpose of select_rows: returns zeros of a shape [..., d] with values [m, d] written to some rows.
inline Tensor scatter_rows(const Tensor& values, const Tensor& rows, at::IntArrayRef shape) {
  const Tensor indices = rows.contiguous();
  const Tensor scattered = at::zeros(shape, values.options());
  const std::int64_t count = indices.numel(), d = shape.back();
  const Tensor dense = values.contiguous();
  const float* from = data(dense);
  const std::int64_t* row = indices.const_data_ptr<std::int64_t>();
  float* to = mutable_data(scattered);
  over_rows(count, d, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) std::copy_n(from + d * i, d, to + d * row[i]);
  });
  return scattered;
}

// Returns the row indices [m] where left(c) times existence is above a tolerance.
inline Tensor changed_rows(const Tensor& left_c, const Tensor& exists, double tolerance) {
  const float *g = data(left_c), *e = data(exists), threshold = static_cast<float>(tolerance);
  const std::int64_t count = left_c.numel();
  std::vector<std::int64_t> changed;
  for (std::int64_t i = 0; i < count; ++i) {
    if (g[i] * e[i] > threshold) changed.push_back(i);
  }
  const Tensor rows = at::empty({static_cast<std::int64_t>(changed.size())}, left_c.options().dtype(at::kLong));
  std::copy(changed.begin(), changed.end(), rows.mutable_data_ptr<std::int64_t>());
  return rows;
}

struct SelectRows : torch::autograd::Function<SelectRows> {
  static variable_list forward(AutogradContext* context, const Tensor& one, const Tensor& two, const Tensor& rows) {
    at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({rows});
    context->saved_data["shape"] = one.sizes().vec();
    context->set_materialize_grads(false);
    return {select_rows(one, rows), select_rows(two, rows)};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = saved_tensors(context, gradients);
    at::AutoDispatchBelowADInplaceOrView below;
    const std::vector<std::int64_t> shape = context->saved_data["shape"].toIntVector();
    const auto scattered = [&](const Tensor& gradient) {
      return gradient.defined() ? scatter_rows(gradient, saved[0], shape) : Tensor();
    };
    return {scattered(gradients[0]), scattered(gradients[1]), Tensor()};
  }
};

// Returns the same rows [m] of two tensors [..., d], as [m, d] each.
inline std::tuple<Tensor, Tensor> rows_at(const Tensor& one, const Tensor& two, const Tensor& rows) {
  TORCH_CHECK(one.sizes() == two.sizes(), "rows_at needs tensors of one shape, got ", one.sizes(), " and ", two.sizes());
  if (!recording({one, two})) return {select_rows(one, rows), select_rows(two, rows)};
  const variable_list selected = SelectRows::apply(one, two, rows);
  return {selected[0], selected[1]};
}

// Returns a gradient to change in place: itself if nothing else holds it, else a copy.
inline Tensor owned(Tensor& gradient) {
  Tensor taken = std::move(gradient);
  const bool alone = taken.use_count() == 1 && taken.storage().use_count() == 1 && taken.is_contiguous();
  return alone ? taken : taken.clone(at::MemoryFormat::Contiguous);
}

// Children of joining rows. The nodes are passed through to Parents, so that one tensor carries the gradient of all nodes.
struct Children : torch::autograd::Function<Children> {
  static variable_list forward(AutogradContext* context, const Tensor& nodes, const Tensor& rows) {
    at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({rows});
    context->saved_data["shape"] = nodes.sizes().vec();
    context->set_materialize_grads(false);
    return {select_rows(nodes, rows), select_rows(nodes, rows + 1), nodes};
  }

  static variable_list backward(AutogradContext* context, variable_list& gradients) {
    const variable_list saved = saved_tensors(context, gradients);
    at::AutoDispatchBelowADInplaceOrView below;
    const std::vector<std::int64_t> shape = context->saved_data["shape"].toIntVector();
    const Tensor& some = gradients[0].defined() ? gradients[0] : gradients[1];
    if (!some.defined() && !gradients[2].defined()) return {Tensor(), Tensor()};
    const Tensor of_nodes = gradients[2].defined() ? owned(gradients[2]) : at::zeros(shape, some.options());
    const std::int64_t count = saved[0].numel(), d = shape.back();
    const std::int64_t* row = saved[0].const_data_ptr<std::int64_t>();
    for (std::int64_t side : {0, 1}) {  // a row may be a left child and a right one, so one side after the other
      if (!gradients[side].defined()) continue;
      const Tensor gradient = gradients[side].stride(-1) == 1 ? gradients[side] : gradients[side].contiguous();
      const float* from = data(gradient);
      const std::int64_t stride = gradient.stride(0);
      float* to = mutable_data(of_nodes) + d * side;
      over_rows(count, d, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t i = first; i < last; ++i) {
#pragma omp simd
          for (std::int64_t j = 0; j < d; ++j) to[d * row[i] + j] += from[stride * i + j];
        }
      });
    }
    return {of_nodes, Tensor()};
  }
};

// Returns the nodes of rows [m] and of the rows behind them [m, s] each, and the nodes [B, n, s], to be given to put_parents.
inline std::tuple<Tensor, Tensor, Tensor> take_children(const Tensor& nodes, const Tensor& rows) {
  const Tensor checked = checked_rows(rows, nodes.numel() / nodes.size(-1) - 1);
  if (!recording({nodes})) return {select_rows(nodes, checked), select_rows(nodes, checked + 1), nodes};
  const variable_list taken = Children::apply(nodes, checked);
  return {taken[0], taken[1], taken[2]};
}

// Copies parents [m, s] into the rows behind rows [m] of nodes [B, n, s].
inline void copy_parents(const Tensor& nodes, const Tensor& parents, const Tensor& rows) {
  const std::int64_t count = rows.numel(), d = nodes.size(-1);
  const std::int64_t* row = rows.const_data_ptr<std::int64_t>();
  const float* from = data(parents);
  float* to = mutable_data(nodes) + d;
  over_rows(count, d, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) std::copy_n(from + d * i, d, to + d * row[i]);
  });
}

struct Parents : torch::autograd::Function<Parents> {
  static Tensor forward(AutogradContext* context, const Tensor& nodes, const Tensor& parents, const Tensor& rows) {
    at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({rows});
    const Tensor result = nodes.clone();
    copy_parents(result, parents, rows);
    return result;
  }

  static variable_list backward(AutogradContext* context, variable_list& gradients) {
    const variable_list saved = saved_tensors(context, gradients);
    at::AutoDispatchBelowADInplaceOrView below;
    const Tensor of_nodes = owned(gradients[0]), of_parents = select_rows(of_nodes, saved[0] + 1);
    const std::int64_t d = of_nodes.size(-1);
    const std::int64_t* row = saved[0].const_data_ptr<std::int64_t>();
    float* to = mutable_data(of_nodes) + d;
    for (std::int64_t i = 0; i < saved[0].numel(); ++i) std::fill_n(to + d * row[i], d, 0.0f);
    return {of_nodes, of_parents, Tensor()};
  }
};

// Returns nodes [B, n, s] with parents [m, s] in the rows behind rows [m]; in place if gradients are disabled.
inline Tensor put_parents(const Tensor& nodes, const Tensor& parents, const Tensor& rows) {
  TORCH_CHECK(parents.size(0) == rows.numel() && parents.size(-1) == nodes.size(-1), "parents of shape ", parents.sizes(),
              " do not fit ", rows.numel(), " rows of ", nodes.size(-1));
  const Tensor checked = checked_rows(rows, nodes.numel() / nodes.size(-1) - 1);
  if (recording({nodes, parents})) return Parents::apply(nodes, parents, checked);
  const Tensor result = at::GradMode::is_enabled() ? nodes.clone() : nodes;
  copy_parents(result, parents, checked);
  return result;
}

}  // namespace crvnn
