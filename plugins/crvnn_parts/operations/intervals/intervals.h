// Soft neighbours (Eq. 5) in linear time, forward and backward; docs/explanation/linear-time.md has the derivation.
//
// With E the prefix sums of existence e, position i sees the interval of length 1 on either side of its own stretch of E:
// a run of whole positions, weighted by e, and a fraction of the position in which the interval ends. Both ends of a run
// are monotone in i, so all sums over runs are a sliding window: O(n d). The transposed operator is again sums over runs.
#pragma once

#include <crvnn/common.h>

#include "run_sums.h"

namespace crvnn {

enum Side { LEFT, RIGHT };

// The intervals of one sequence. The left run of position i is [left_begin[i], i), and the fraction that of position
// left_begin[i] - 1; the right run is [i + 1, right_end[i]), and the fraction that of position right_end[i]. Transposed:
// position j is in the left runs of the positions [j + 1, left_of_end[j]), and in the right runs of [right_of_begin[j], j).
struct Intervals {
  std::int64_t n;
  const float* exists;
  const std::int32_t *left_begin, *right_end, *left_of_end, *right_of_begin;
  const float* fractions[2];

  Intervals(const Tensor& exists_, const Tensor& bounds, const Tensor& fractions_, std::int64_t row)
      : n(exists_.size(1)), exists(data(exists_) + row * n) {
    const std::int32_t* all = bounds.const_data_ptr<std::int32_t>() + 4 * n * row;
    left_begin = all;
    right_end = all + n;
    left_of_end = all + 2 * n;
    right_of_begin = all + 3 * n;
    fractions[LEFT] = data(fractions_) + 2 * n * row;
    fractions[RIGHT] = fractions[LEFT] + n;
  }

  // Returns the position that the interval of i ends in, or -1 if it ends with the sequence.
  template <Side side>
  std::int64_t end_position(std::int64_t i) const {
    if constexpr (side == LEFT) return left_begin[i] - 1;
    return right_end[i] < n ? right_end[i] : -1;
  }

  // Returns the ends, or for the right side the beginnings, of the transposed runs.
  template <Side side>
  const std::int32_t* transposed_bound() const {
    return side == LEFT ? left_of_end : right_of_begin;
  }
};

// to[i] = left(from)_i or right(from)_i.
template <Side side, class Width>
void neighbour_of(const Intervals& intervals, const Read& from, const Write& to, Width width) {
  const auto emit = [&](std::int64_t i, const auto& sum) {
    const std::int64_t at = intervals.end_position<side>(i);
    const float fraction = at < 0 ? 0 : intervals.fractions[side][i];
    float* out = to[i];
    if (fraction == 0) {
#pragma omp simd
      for (std::int64_t c = 0; c < width; ++c) out[c] = sum(c);
    } else {
      const float* row = from[at];
#pragma omp simd
      for (std::int64_t c = 0; c < width; ++c) out[c] = sum(c) + fraction * row[c];
    }
  };
  const std::int32_t* bound = side == LEFT ? intervals.left_begin : intervals.right_end;
  run_sums<side == LEFT, true>(intervals.n, bound, from, intervals.exists, width, emit);
}

// The same for a number of channels that is known at run time only.
template <Side side>
void neighbour(const Intervals& intervals, const Read& from, const Write& to, std::int64_t width) {
  with_width(width, [&](auto known) { neighbour_of<side>(intervals, from, to, known); });
}

// The backward pass of neighbour_of.
template <Side side, class Width>
void neighbour_of_backward(const Intervals& intervals, const Read& gradient, const Read& from, const Write& of_from,
                           float* of_exists, float* of_fraction, Width width) {
  const auto emit = [&](std::int64_t j, const auto& sum) {
    const float* row = from[j];
    const float exists = intervals.exists[j];
    float* out = of_from[j];
    float dot = 0;
#pragma omp simd reduction(+ : dot)
    for (std::int64_t c = 0; c < width; ++c) {
      const float own = sum(c);
      out[c] += exists * own;
      dot += own * row[c];
    }
    of_exists[j] += dot;
  };
  run_sums<side == RIGHT, false>(intervals.n, intervals.transposed_bound<side>(), gradient, nullptr, width, emit);
  for (std::int64_t i = 0; i < intervals.n; ++i) {
    const std::int64_t at = intervals.end_position<side>(i);
    if (at < 0) continue;
    const float *row = from[at], *own = gradient[i];
    const float fraction = intervals.fractions[side][i];
    float* out = of_from[at];
    float dot = 0;
#pragma omp simd reduction(+ : dot)
    for (std::int64_t c = 0; c < width; ++c) {
      out[c] += fraction * own[c];
      dot += own[c] * row[c];
    }
    of_fraction[i] += dot;
  }
}

// The backward pass of neighbour: adds to the gradients of from (the transposed operator), of existence as a weight [n],
// and of the fractions [n].
template <Side side>
void neighbour_backward(const Intervals& intervals, const Read& gradient, const Read& from, const Write& of_from,
                        float* of_exists, float* of_fraction, std::int64_t width) {
  with_width(width, [&](auto known) {
    neighbour_of_backward<side>(intervals, gradient, from, of_from, of_exists, of_fraction, known);
  });
}

// A fraction is 1 minus the existence in its run: adds its gradient, negated, to that of every position in the run.
template <Side side>
void fractions_backward(const Intervals& intervals, const float* of_fraction, float* of_exists) {
  run_sums<side == RIGHT, false>(intervals.n, intervals.transposed_bound<side>(), Read{of_fraction, 1}, nullptr,
                                 std::integral_constant<std::int64_t, 1>{},
                                 [&](std::int64_t j, const auto& sum) { of_exists[j] -= sum(0); });
}

// Gradients with respect to existence, accumulated separately for groups of channels that threads process in parallel.
struct ExistenceGradients {
  std::int64_t n, groups;
  std::vector<float> all;  // [groups, 3, n]: of existence, of the fractions to the left and to the right

  ExistenceGradients(std::int64_t n_, std::int64_t groups_) : n(n_), groups(groups_), all(3 * n_ * groups_, 0.0f) {}
  float* exists(std::int64_t group) { return all.data() + 3 * n * group; }
  float* fraction(std::int64_t group, Side side) { return exists(group) + (1 + side) * n; }

  // Writes their sum over groups to of_exists [n], with the gradients of the fractions propagated to existence.
  void reduce(const Intervals& intervals, float* of_exists) {
    float* total = all.data();
    for (std::int64_t group = 1; group < groups; ++group) {
      const float* more = exists(group);
      for (std::int64_t i = 0; i < 3 * n; ++i) total[i] += more[i];
    }
    fractions_backward<LEFT>(intervals, fraction(0, LEFT), total);
    fractions_backward<RIGHT>(intervals, fraction(0, RIGHT), total);
    std::copy(total, total + n, of_exists);
  }
};

// Calls work(sequence, group, first channel, channels) for all sequences and groups of channels, in threads; then
// after(sequence) for each. layers is how many passes over its channels work makes.
template <class Work, class After>
void over_channel_groups(std::int64_t batch, std::int64_t n, std::int64_t width, std::int64_t layers, const Work& work,
                         const After& after) {
  const std::int64_t groups = (width + CHANNELS - 1) / CHANNELS;
  const std::int64_t each = n * layers * std::min(width, CHANNELS);
  over_rows(batch * groups, each, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t k = first; k < last; ++k) {
      const std::int64_t channel = k % groups * CHANNELS;
      work(k / groups, k % groups, channel, std::min(CHANNELS, width - channel));
    }
  });
  for (std::int64_t row = 0; row < batch; ++row) after(row);
}

// Returns the bounds of all runs [B, 4, n] and the fractions [B, 2, n] for existence [B, n], from float64
// prefix sums.
inline std::tuple<Tensor, Tensor> interval_bounds(const Tensor& exists) {
  const std::int64_t batch = exists.size(0), n = exists.size(1);
  const Tensor bounds = at::empty({batch, 4, n}, exists.options().dtype(at::kInt));
  const Tensor fractions = at::empty({batch, 2, n}, exists.options());
  const float* all = data(exists);
  std::int32_t* to = bounds.mutable_data_ptr<std::int32_t>();
  float* fraction = mutable_data(fractions);
  over_rows(batch, 8 * n, [&](std::int64_t begin, std::int64_t end) {
    std::vector<double> sums(n + 1);
    for (std::int64_t row = begin; row < end; ++row) {
      const float* e = all + n * row;
      std::int32_t *left_begin = to + 4 * n * row, *right_end = left_begin + n;
      std::int32_t *left_of_end = right_end + n, *right_of_begin = left_of_end + n;
      float *to_left = fraction + 2 * n * row, *to_right = to_left + n;
      sums[0] = 0;
      for (std::int64_t i = 0; i < n; ++i) sums[i + 1] = sums[i] + e[i];
      std::int64_t lower = 0, upper = 0;
      for (std::int64_t i = 0; i < n; ++i) {
        while (sums[lower] < sums[i] - 1) ++lower;
        while (upper < n && sums[upper + 1] <= sums[i + 1] + 1) ++upper;
        left_begin[i] = static_cast<std::int32_t>(lower);
        right_end[i] = static_cast<std::int32_t>(upper);
        to_left[i] = lower > 0 ? static_cast<float>(sums[lower] - sums[i] + 1) : 0;
        to_right[i] = upper < n ? static_cast<float>(sums[i + 1] - sums[upper] + 1) : 0;
      }
      std::int64_t after = 0, before = 0;
      for (std::int64_t j = 0; j < n; ++j) {
        while (after < n && left_begin[after] <= j) ++after;
        while (before < n && right_end[before] <= j) ++before;
        left_of_end[j] = static_cast<std::int32_t>(std::max(after, j + 1));
        right_of_begin[j] = static_cast<std::int32_t>(std::min(before, j));
      }
    }
  });
  return {bounds, fractions};
}

inline std::int64_t channels(const Tensor& values) { return values.dim() == 3 ? values.size(2) : 1; }

// Raises unless values are [B, n] or [B, n, d] for existence [B, n].
inline void check_shape(const Tensor& values, const Tensor& exists) {
  TORCH_CHECK((values.dim() == 2 || values.dim() == 3) && values.size(0) == exists.size(0) &&
                  values.size(1) == exists.size(1),
              "values of shape ", values.sizes(), " do not fit existence of shape ", exists.sizes());
}

// Returns left(values) or right(values), of values [B, n] or [B, n, d].
inline Tensor neighbours(const Tensor& values, const Tensor& exists, const Tensor& bounds, const Tensor& fractions,
                         std::int64_t side) {
  const std::int64_t batch = values.size(0), n = values.size(1), d = channels(values);
  const Tensor result = at::empty_like(values);
  const auto work = [&](std::int64_t row, std::int64_t, std::int64_t channel, std::int64_t width) {
    const Intervals intervals(exists, bounds, fractions, row);
    const Read from{data(values) + row * n * d + channel, d};
    const Write to{mutable_data(result) + row * n * d + channel, d};
    side == LEFT ? neighbour<LEFT>(intervals, from, to, width) : neighbour<RIGHT>(intervals, from, to, width);
  };
  over_channel_groups(batch, n, d, 1, work, [](std::int64_t) {});
  return result;
}

// The backward pass of neighbours: returns the gradients of values and of existence.
inline std::tuple<Tensor, Tensor> neighbours_backward(const Tensor& gradient, const Tensor& values, const Tensor& exists,
                                                      const Tensor& bounds, const Tensor& fractions,
                                                      std::int64_t side) {
  const std::int64_t batch = values.size(0), n = values.size(1), d = channels(values);
  const Tensor of_values = at::zeros_like(values), of_exists = at::empty_like(exists);
  std::vector<ExistenceGradients> partial(batch, ExistenceGradients(n, (d + CHANNELS - 1) / CHANNELS));
  const auto work = [&](std::int64_t row, std::int64_t group, std::int64_t channel, std::int64_t width) {
    const Intervals intervals(exists, bounds, fractions, row);
    const std::int64_t start = row * n * d + channel;
    const Read of{data(gradient) + start, d}, from{data(values) + start, d};
    const Write to{mutable_data(of_values) + start, d};
    ExistenceGradients& sums = partial[row];
    side == LEFT
        ? neighbour_backward<LEFT>(intervals, of, from, to, sums.exists(group), sums.fraction(group, LEFT), width)
        : neighbour_backward<RIGHT>(intervals, of, from, to, sums.exists(group), sums.fraction(group, RIGHT), width);
  };
  over_channel_groups(batch, n, d, 2, work, [&](std::int64_t row) {
    partial[row].reduce(Intervals(exists, bounds, fractions, row), mutable_data(of_exists) + n * row);
  });
  return {of_values, of_exists};
}

struct Neighbours : torch::autograd::Function<Neighbours> {
  static Tensor forward(AutogradContext* context, const Tensor& values, const Tensor& exists, const Tensor& bounds,
                        const Tensor& fractions, std::int64_t side) {
    at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({values, exists, bounds, fractions});
    context->saved_data["side"] = side;
    return neighbours(values, exists, bounds, fractions, side);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = saved_tensors(context, gradients);
    at::AutoDispatchBelowADInplaceOrView below;
    const auto [of_values, of_exists] = neighbours_backward(gradients[0].contiguous(), saved[0], saved[1], saved[2],
                                                            saved[3], context->saved_data["side"].toInt());
    return {of_values, of_exists, Tensor(), Tensor(), Tensor()};
  }
};

// The operator: the same, recorded by autograd.
inline Tensor neighbour(const Tensor& values, const Tensor& exists, const Tensor& bounds, const Tensor& fractions,
                        std::int64_t side) {
  check_shape(values, exists);
  if (recording({values, exists})) return Neighbours::apply(values, exists, bounds, fractions, side);
  return neighbours(values, exists, bounds, fractions, side);
}

}  // namespace crvnn
