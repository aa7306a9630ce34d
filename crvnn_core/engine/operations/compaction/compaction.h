// Compaction: sequences that have halted and positions that no longer exist are removed from the batch between two steps.
// survey counts what can be removed, and compact gathers the kept positions of the active sequences. B sequences of n
// positions; a row index is b n + i.
#pragma once

#include "../rows/rows.h"

namespace crvnn {

// Returns which positions are kept [B, n], namely those with e > 0 or that are not eligible; and per sequence [3, B]:
// whether the halting wants another step, how many positions are kept, how many of these have e < 1.
inline std::tuple<Tensor, Tensor> survey(const Tensor& more, const Tensor& exists, const Tensor& present,
                                         const Tensor& eligible) {
  const std::int64_t batch = exists.size(0), n = exists.size(1);
  const Tensor kept = at::empty_like(present), counts = at::empty({3, batch}, exists.options().dtype(at::kLong));
  const float* e = data(exists);
  const bool *is_present = present.const_data_ptr<bool>(), *is_eligible = eligible.const_data_ptr<bool>();
  bool* is_kept = kept.mutable_data_ptr<bool>();
  std::int64_t* out = counts.mutable_data_ptr<std::int64_t>();
  for (std::int64_t row = 0; row < batch; ++row) {
    std::int64_t kept_count = 0, uncertain_count = 0;
    for (std::int64_t i = n * row; i < n * (row + 1); ++i) {
      is_kept[i] = is_present[i] && (e[i] != 0 || !is_eligible[i]);
      kept_count += is_kept[i];
      uncertain_count += is_kept[i] && e[i] != 1;
    }
    out[row] = more.const_data_ptr<bool>()[row];
    out[batch + row] = kept_count;
    out[2 * batch + row] = uncertain_count;
  }
  return {kept, counts};
}

// Where the positions of a compacted batch [b, size] come from: the position in its sequence, the row index in the batch,
// and whether it is a kept position. The others, which become padding, come last.
struct Selection {
  Tensor order, rows, present;
};

// Returns the kept positions of some sequences, in their order, then others up to size.
inline Selection select_kept(const Tensor& kept, at::IntArrayRef sequences, std::int64_t size) {
  const std::int64_t batch = sequences.size(), n = kept.size(1);
  TORCH_CHECK(size <= n, "cannot keep ", size, " of ", n, " positions");
  const Tensor order = at::empty({batch, size}, kept.options().dtype(at::kLong));
  const Selection selection{order, at::empty_like(order), at::empty({batch, size}, kept.options())};
  for (std::int64_t b = 0; b < batch; ++b) {
    TORCH_CHECK_INDEX(sequences[b] >= 0 && sequences[b] < kept.size(0), "sequence ", sequences[b],
                      " is out of range for a batch of ", kept.size(0));
    const bool* is_kept = kept.const_data_ptr<bool>() + n * sequences[b];
    std::int64_t *position = selection.order.mutable_data_ptr<std::int64_t>() + size * b, count = 0;
    std::int64_t* row = selection.rows.mutable_data_ptr<std::int64_t>() + size * b;
    bool* is_present = selection.present.mutable_data_ptr<bool>() + size * b;
    for (std::int64_t i = 0; i < n && count < size; ++i) {
      if (is_kept[i]) position[count++] = i;
    }
    std::fill(is_present, is_present + count, true);
    std::fill(is_present + count, is_present + size, false);
    for (std::int64_t i = 0; i < n && count < size; ++i) {
      if (!is_kept[i]) position[count++] = i;
    }
    for (std::int64_t i = 0; i < size; ++i) row[i] = position[i] + n * sequences[b];
  }
  return selection;
}

// Returns the selected entries [b, size] of numbers or flags [B, n]; 0 at padding if zero_padding.
template <class Number>
Tensor select_entries(const Tensor& values, const Selection& selection, bool zero_padding) {
  const Tensor selected = at::empty(selection.rows.sizes(), values.options());
  const Number* from = values.const_data_ptr<Number>();
  const std::int64_t* row = selection.rows.const_data_ptr<std::int64_t>();
  const bool* is_present = selection.present.const_data_ptr<bool>();
  Number* to = selected.mutable_data_ptr<Number>();
  for (std::int64_t i = 0; i < selected.numel(); ++i) {
    to[i] = !zero_padding || is_present[i] ? from[row[i]] : Number(0);
  }
  return selected;
}

struct Compact : torch::autograd::Function<Compact> {
  static variable_list selected(const Tensor& nodes, const Tensor& exists, const Tensor& left_c,
                                const Selection& selection) {
    const Tensor rows = select_rows(nodes, selection.rows);
    return {rows.view({selection.rows.size(0), selection.rows.size(1), nodes.size(-1)}),
            select_entries<float>(exists, selection, true), select_entries<float>(left_c, selection, false)};
  }

  static variable_list forward(AutogradContext* context, const Tensor& nodes, const Tensor& exists,
                               const Tensor& left_c, const Selection& selection) {
    at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({selection.rows, selection.present});
    context->saved_data["shape"] = nodes.sizes().vec();
    context->set_materialize_grads(false);
    return selected(nodes, exists, left_c, selection);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = saved_tensors(context, gradients);
    at::AutoDispatchBelowADInplaceOrView below;
    const std::vector<std::int64_t> shape = context->saved_data["shape"].toIntVector();
    const auto of_entries = [&](const Tensor& gradient) {
      return gradient.defined() ? scatter_rows(gradient, saved[0], {shape[0], shape[1], 1}).squeeze(-1) : Tensor();
    };
    const Tensor of_nodes = gradients[0].defined() ? scatter_rows(gradients[0], saved[0], shape) : Tensor();
    const Tensor of_exists = gradients[1].defined() ? gradients[1] * saved[1] : Tensor();
    return {of_nodes, of_entries(of_exists), of_entries(gradients[2]), Tensor()};
  }
};

// From nodes [B, n, s] and exists, left_c, kept, tokens, eligible, place [B, n], returns them for some sequences only,
// with their kept positions moved to the left and padding up to size, in the same order: kept becomes which positions are
// not padding. Padding has e = 0 and is neither token nor eligible. Last comes the position that each had before [b, size].
inline std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> compact(
    const Tensor& nodes, const Tensor& exists, const Tensor& left_c, const Tensor& kept, const Tensor& tokens,
    const Tensor& eligible, const Tensor& place, at::IntArrayRef sequences, std::int64_t size) {
  const Selection selection = select_kept(kept, sequences, size);
  const variable_list values = recording({nodes, exists, left_c})
                                   ? Compact::apply(nodes, exists, left_c, selection)
                                   : Compact::selected(nodes, exists, left_c, selection);
  return {values[0],
          values[1],
          values[2],
          selection.present,
          select_entries<bool>(tokens, selection, true),
          select_entries<bool>(eligible, selection, true),
          select_entries<std::int64_t>(place, selection, false),
          selection.order};
}

}  // namespace crvnn
