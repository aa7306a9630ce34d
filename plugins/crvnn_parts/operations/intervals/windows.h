// Windows of soft neighbours: left_r ... left_1, self, right_1 ... right_r concatenated [B, n, (2 r + 1) d], where left_m
// is left applied m times. Each side is a chain of neighbour kernels over groups of channels.
#pragma once

#include "intervals.h"

namespace crvnn {

// Writes the windows of values [B, n, d] to windows_ [B, n, (2 r + 1) d], and left(values) to left [B, n, d] if defined.
inline void make_windows(const Tensor& values, const Tensor& exists, const Tensor& bounds, const Tensor& fractions,
                         std::int64_t reach, const Tensor& windows_, const Tensor& left) {
  const std::int64_t batch = values.size(0), n = values.size(1), d = values.size(2), all = (2 * reach + 1) * d;
  // One task per side of a sequence: each writes contiguous channels of a position.
  over_rows(2 * batch, n * d * (reach + 1), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t k = first; k < last; ++k) {
      const std::int64_t row = k / 2;
      const Intervals intervals(exists, bounds, fractions, row);
      for (std::int64_t channel = 0; channel < d; channel += CHANNELS) {
        const std::int64_t width = std::min(CHANNELS, d - channel);
        const Read from{data(values) + row * n * d + channel, d};
        const Write to{mutable_data(windows_) + row * n * all + reach * d + channel, all};
        if (k % 2 == LEFT) {
          for (std::int64_t m = 1; m <= reach; ++m) {
            const Read before = m == 1 ? from : Read{to.first - (m - 1) * d, all};
            neighbour<LEFT>(intervals, before, to.from(-m * d), width);
          }
          if (!left.defined()) continue;
          const Write one{mutable_data(left) + row * n * d + channel, d};
          for (std::int64_t i = 0; i < n; ++i) std::copy_n(to[i] - d, width, one[i]);
        } else {
          for (std::int64_t i = 0; i < n; ++i) std::copy_n(from[i], width, to[i]);
          for (std::int64_t m = 1; m <= reach; ++m) {
            const Read before = m == 1 ? from : Read{to.first + (m - 1) * d, all};
            neighbour<RIGHT>(intervals, before, to.from(m * d), width);
          }
        }
      }
    }
  });
}

// Returns the windows and left(values).
inline std::tuple<Tensor, Tensor> windows(const Tensor& values, const Tensor& exists, const Tensor& bounds,
                                          const Tensor& fractions, std::int64_t reach) {
  const std::int64_t batch = values.size(0), n = values.size(1), d = values.size(2);
  const Tensor windows_ = scratch({batch, n, (2 * reach + 1) * d}, values.options(), is_checkpointing());
  const Tensor left = at::empty_like(values);
  make_windows(values, exists, bounds, fractions, reach, windows_, left);
  return {windows_, left};
}

inline void check_window(const Tensor& values, const Tensor& exists, std::int64_t reach) {
  check_shape(values, exists);
  TORCH_CHECK(values.dim() == 3 && reach > 0, "a window needs values [B, n, d] and a reach above 0, got ",
              values.sizes(), " and ", reach);
}

// The backward pass of one side of a window, from the farthest neighbours inwards: adds to the gradient of the values.
template <Side side>
void side_backward(const Intervals& intervals, std::int64_t reach, std::int64_t d, const Read& values,
                   const Read& of_window_rows, const Read& of_left_rows, const Write& to, ExistenceGradients& sums,
                   std::int64_t group, std::int64_t width) {
  std::vector<float> one(intervals.n * width), two(intervals.n * width);
  Write buffer{one.data(), width}, other{two.data(), width};
  const auto channel_of = [&](std::int64_t m) { return (side == LEFT ? reach - m : reach + m) * d; };
  // The gradient of left_m or right_m itself: from the window, and for m = 1 also from left(values).
  const auto own = [&](std::int64_t m, const Write& into) {
    for (std::int64_t i = 0; i < intervals.n; ++i) {
      std::copy_n(of_window_rows.from(channel_of(m))[i], width, into[i]);
      if (m == 1 && of_left_rows.first) {
        for (std::int64_t c = 0; c < width; ++c) into[i][c] += of_left_rows[i][c];
      }
    }
    return Read{into.first, width};
  };
  Read gradient = reach == 1 && of_left_rows.first ? own(1, other) : of_window_rows.from(channel_of(reach));
  for (std::int64_t m = reach - 1; m >= 0; --m) {
    const Write into = m > 0 ? buffer : to;
    if (m > 0) own(m, into);
    neighbour_backward<side>(intervals, gradient, values.from(channel_of(m)), into, sums.exists(group),
                             sums.fraction(group, side), width);
    gradient = Read{into.first, into.stride};
    std::swap(buffer, other);
  }
}

// Returns the gradients of values [B, n, d] and of existence [B, n], from the windows and the gradients of both results.
inline std::tuple<Tensor, Tensor> windows_backward(const Tensor& windows_, const Tensor& exists, const Tensor& bounds,
                                                   const Tensor& fractions, std::int64_t reach, const Tensor& of_window,
                                                   Tensor of_left) {
  const std::int64_t batch = windows_.size(0), n = windows_.size(1), all = windows_.size(2), d = all / (2 * reach + 1);
  if (of_left.defined() && of_left.stride(2) != 1) of_left = of_left.contiguous();
  const Tensor of_values = at::empty({batch, n, d}, windows_.options()), of_exists = at::empty_like(exists);
  std::vector<ExistenceGradients> partial(batch, ExistenceGradients(n, (d + CHANNELS - 1) / CHANNELS));
  const auto work = [&](std::int64_t row, std::int64_t group, std::int64_t channel, std::int64_t width) {
    const Intervals intervals(exists, bounds, fractions, row);
    const Read values{data(windows_) + row * n * all + channel, all};
    const Read of_window_rows{data(of_window) + row * n * all + channel, all};
    const Write to{mutable_data(of_values) + row * n * d + channel, d};
    for (std::int64_t i = 0; i < n; ++i) std::copy_n(of_window_rows.from(reach * d)[i], width, to[i]);
    const Read none{nullptr, 0};
    const Read of_left_rows =
        of_left.defined() ? Read{data(of_left) + row * of_left.stride(0) + channel, of_left.stride(1)} : none;
    side_backward<LEFT>(intervals, reach, d, values, of_window_rows, of_left_rows, to, partial[row], group, width);
    side_backward<RIGHT>(intervals, reach, d, values, of_window_rows, none, to, partial[row], group, width);
  };
  over_channel_groups(batch, n, d, 4 * reach + 2, work, [&](std::int64_t row) {
    partial[row].reduce(Intervals(exists, bounds, fractions, row), mutable_data(of_exists) + n * row);
  });
  return {of_values, of_exists};
}

struct Windows : torch::autograd::Function<Windows> {
  static variable_list forward(AutogradContext* context, const Tensor& values, const Tensor& exists,
                               const Tensor& bounds, const Tensor& fractions, std::int64_t reach) {
    at::AutoDispatchBelowADInplaceOrView below;
    const auto [windows_, left] = windows(values, exists, bounds, fractions, reach);
    context->save_for_backward({windows_, exists, bounds, fractions});
    context->saved_data["reach"] = reach;
    context->set_materialize_grads(false);
    return {windows_, left};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = saved_tensors(context, gradients);
    at::AutoDispatchBelowADInplaceOrView below;
    const Tensor of_window = gradients[0].defined() ? gradients[0].contiguous() : at::zeros_like(saved[0]);
    const auto [of_values, of_exists] = windows_backward(
        saved[0], saved[1], saved[2], saved[3], context->saved_data["reach"].toInt(), of_window, gradients[1]);
    return {of_values, of_exists, Tensor(), Tensor(), Tensor()};
  }
};

// The operator: the same, recorded by autograd.
inline std::tuple<Tensor, Tensor> window(const Tensor& values, const Tensor& exists, const Tensor& bounds,
                                         const Tensor& fractions, std::int64_t reach) {
  check_window(values, exists, reach);
  if (!recording({values, exists})) return windows(values, exists, bounds, fractions, reach);
  const variable_list results = Windows::apply(values, exists, bounds, fractions, reach);
  return {results[0], results[1]};
}

}  // namespace crvnn
