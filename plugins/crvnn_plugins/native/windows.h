// Windows: the values between those of their neighbours to both sides.
#pragma once

#include "intervals.h"

namespace crvnn {

// The values [B, n, d] between those of their neighbours up to a reach r, side by side [B, n, (2 r + 1) d]; and their
// neighbours to the left once more by themselves [B, n, d], if these are wanted.
inline void make_windows(const Tensor& values, const Tensor& exists, const Tensor& spans, const Tensor& shares,
                         std::int64_t reach, const Tensor& found, const Tensor& left) {
  const std::int64_t batch = values.size(0), n = values.size(1), d = values.size(2), all = (2 * reach + 1) * d;
  // One thread for each side: what it writes of a position then lies together.
  over_rows(2 * batch, n * d * (reach + 1), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t k = first; k < last; ++k) {
      const std::int64_t row = k / 2;
      const Line line(exists, spans, shares, row);
      for (std::int64_t channel = 0; channel < d; channel += CHANNELS) {
        const std::int64_t width = std::min(CHANNELS, d - channel);
        const Read from{data(values) + row * n * d + channel, d};
        const Write to{mutable_data(found) + row * n * all + reach * d + channel, all};
        if (k % 2 == LEFT) {
          for (std::int64_t m = 1; m <= reach; ++m) {
            const Read before = m == 1 ? from : Read{to.first - (m - 1) * d, all};
            neighbour<LEFT>(line, before, to.from(-m * d), width);
          }
          if (!left.defined()) continue;
          const Write one{mutable_data(left) + row * n * d + channel, d};
          for (std::int64_t i = 0; i < n; ++i) std::copy_n(to[i] - d, width, one[i]);
        } else {
          for (std::int64_t i = 0; i < n; ++i) std::copy_n(from[i], width, to[i]);
          for (std::int64_t m = 1; m <= reach; ++m) {
            const Read before = m == 1 ? from : Read{to.first + (m - 1) * d, all};
            neighbour<RIGHT>(line, before, to.from(m * d), width);
          }
        }
      }
    }
  });
}

inline std::tuple<Tensor, Tensor> windows(const Tensor& values, const Tensor& exists, const Tensor& spans,
                                          const Tensor& shares, std::int64_t reach) {
  const std::int64_t batch = values.size(0), n = values.size(1), d = values.size(2);
  const Tensor found = room_for({batch, n, (2 * reach + 1) * d}, values.options(), saving_memory());
  const Tensor left = at::empty_like(values);
  make_windows(values, exists, spans, shares, reach, found, left);
  return {found, left};
}

inline void expect_window(const Tensor& values, const Tensor& exists, std::int64_t reach) {
  expect_fitting(values, exists);
  TORCH_CHECK(values.dim() == 3 && reach > 0, "a window is of vectors, and reaches somewhere");
}

// Backwards through the neighbours of a window to one side, from the furthest on: to += what concerns the values.
template <Side side>
void side_backward(const Line& line, std::int64_t reach, std::int64_t d, const Read& values, const Read& of,
                   const Read& more, const Write& to, OfExists& sums, std::int64_t group, std::int64_t width) {
  std::vector<float> one(line.n * width), two(line.n * width);
  Write room{one.data(), width}, other{two.data(), width};
  const auto part = [&](std::int64_t m) { return (side == LEFT ? reach - m : reach + m) * d; };
  // The gradient that the neighbours m steps away have of their own: in the window, and once more by themselves.
  const auto own = [&](std::int64_t m, const Write& into) {
    for (std::int64_t i = 0; i < line.n; ++i) {
      std::copy_n(of.from(part(m))[i], width, into[i]);
      if (m == 1 && more.first) {
        for (std::int64_t c = 0; c < width; ++c) into[i][c] += more[i][c];
      }
    }
    return Read{into.first, width};
  };
  Read gradient = reach == 1 && more.first ? own(1, other) : of.from(part(reach));
  for (std::int64_t m = reach - 1; m >= 0; --m) {
    const Write into = m > 0 ? room : to;
    if (m > 0) own(m, into);
    neighbour_backward<side>(line, gradient, values.from(part(m)), into, sums.exists(group), sums.share(group, side),
                             width);
    gradient = Read{into.first, into.apart};
    std::swap(room, other);
  }
}

// Backwards, from the window itself and the gradients of both: those of the values, and of what exists.
inline std::tuple<Tensor, Tensor> windows_backward(const Tensor& found, const Tensor& exists, const Tensor& spans,
                                                   const Tensor& shares, std::int64_t reach, const Tensor& of_window,
                                                   Tensor of_left) {
  const std::int64_t batch = found.size(0), n = found.size(1), all = found.size(2), d = all / (2 * reach + 1);
  if (of_left.defined() && of_left.stride(2) != 1) of_left = of_left.contiguous();
  const Tensor of_values = at::empty({batch, n, d}, found.options()), of_exists = at::empty_like(exists);
  std::vector<OfExists> partial(batch, OfExists(n, (d + CHANNELS - 1) / CHANNELS));
  const auto work = [&](std::int64_t row, std::int64_t group, std::int64_t channel, std::int64_t width) {
    const Line line(exists, spans, shares, row);
    const Read values{data(found) + row * n * all + channel, all};
    const Read of{data(of_window) + row * n * all + channel, all};
    const Write to{mutable_data(of_values) + row * n * d + channel, d};
    for (std::int64_t i = 0; i < n; ++i) std::copy_n(of.from(reach * d)[i], width, to[i]);
    const Read none{nullptr, 0};
    const Read more =
        of_left.defined() ? Read{data(of_left) + row * of_left.stride(0) + channel, of_left.stride(1)} : none;
    side_backward<LEFT>(line, reach, d, values, of, more, to, partial[row], group, width);
    side_backward<RIGHT>(line, reach, d, values, of, none, to, partial[row], group, width);
  };
  over_groups(batch, n, d, 4 * reach + 2, work, [&](std::int64_t row) {
    partial[row].into(Line(exists, spans, shares, row), mutable_data(of_exists) + n * row);
  });
  return {of_values, of_exists};
}

struct Windows : torch::autograd::Function<Windows> {
  static variable_list forward(AutogradContext* context, const Tensor& values, const Tensor& exists,
                               const Tensor& spans, const Tensor& shares, std::int64_t reach) {
    at::AutoDispatchBelowADInplaceOrView below;
    const auto [found, left] = windows(values, exists, spans, shares, reach);
    context->save_for_backward({found, exists, spans, shares});
    context->saved_data["reach"] = reach;
    context->set_materialize_grads(false);
    return {found, left};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = saved_by(context, gradients);
    at::AutoDispatchBelowADInplaceOrView below;
    const Tensor of_window = gradients[0].defined() ? gradients[0].contiguous() : at::zeros_like(saved[0]);
    const auto [of_values, of_exists] = windows_backward(
        saved[0], saved[1], saved[2], saved[3], context->saved_data["reach"].toInt(), of_window, gradients[1]);
    return {of_values, of_exists, Tensor(), Tensor(), Tensor()};
  }
};

inline std::tuple<Tensor, Tensor> window(const Tensor& values, const Tensor& exists, const Tensor& spans,
                                         const Tensor& shares, std::int64_t reach) {
  expect_window(values, exists, reach);
  if (!recording({values, exists})) return windows(values, exists, spans, shares, reach);
  const variable_list found = Windows::apply(values, exists, spans, shares, reach);
  return {found[0], found[1]};
}

}  // namespace crvnn
