// Soft neighbours (Eq. 5) in linear time: sums over runs of positions that only ever move to the right.
//
// With E the sums of e before each position, everything that lies within 1 of a position on the line E is its soft
// neighbour: a run of whole positions, and a share of the one behind them.
#pragma once

#include <crvnn/common.h>

namespace crvnn {

// Channels that are summed together.
constexpr std::int64_t CHANNELS = 64;

// Rows of spans [B, 4, n] (int32).
enum Row { SINCE, UNTIL, SEEN_UNTIL, SEEN_SINCE };
enum Side { LEFT, RIGHT };

// Position i has to its left the run from since[i] up to i, and a share of the position before it; to its right the
// run behind it up to until[i], and a share of position until[i]. Position j is in the left runs of those behind it up
// to seen_until[j], and in the right runs of those from seen_since[j] up to it.
struct Line {
  std::int64_t n;
  const float* exists;
  const std::int32_t *since, *until, *seen_until, *seen_since;
  const float* shares[2];

  Line(const Tensor& exists_, const Tensor& spans, const Tensor& shares_, std::int64_t row)
      : n(exists_.size(1)), exists(data(exists_) + row * n) {
    const std::int32_t* all = spans.const_data_ptr<std::int32_t>() + 4 * n * row;
    since = all;
    until = all + n;
    seen_until = all + 2 * n;
    seen_since = all + 3 * n;
    shares[LEFT] = data(shares_) + 2 * n * row;
    shares[RIGHT] = shares[LEFT] + n;
  }

  // The position that i has a share of, or -1.
  template <Side side>
  std::int64_t behind(std::int64_t i) const {
    if constexpr (side == LEFT) return since[i] - 1;
    return until[i] < n ? until[i] : -1;
  }
};

// A number of channels that is known when compiling, as it most often is: loops over them have no ends then.
using Full = std::integral_constant<std::int64_t, CHANNELS>;

template <class Work>
void with_width(std::int64_t width, const Work& work) {
  width == CHANNELS ? work(Full{}) : work(width);
}

// Rows of numbers in memory, some way apart.
template <class Number>
struct Rows {
  Number* first;
  std::int64_t apart;
  Number* operator[](std::int64_t i) const { return first + i * apart; }
  Rows from(std::int64_t channel) const { return {first + channel, apart}; }
};
using Read = Rows<const float>;
using Write = Rows<float>;

// For every position i the sum of rows (times their weight, if there is one) over its run: emit(i, sum), where sum(c) is
// that of channel c. The runs begin at border[i] and end before i, or begin behind i and end before border[i].
//
// Nothing is ever subtracted, so a small number is not lost because a large one has passed. A run is in two parts: of
// the front part there are the sums from each of its positions on, of the back part there is one sum. When the front
// part is used up, the back part becomes it; that happens to every position once.
template <bool before, bool weighted, class Width, class Emit>
void slide(std::int64_t n, const std::int32_t* border, const Read& rows, const float* weight, Width width,
           const Emit& emit) {
  alignas(64) float back[CHANNELS] = {};
  std::vector<float> front;  // sums over front[j - base] ... from position j up to middle
  std::int64_t base = 0, middle = 0, last = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t begin = before ? border[i] : i + 1, end = before ? i : border[i];
    if (begin >= end) {
      emit(i, [](std::int64_t) { return 0.0f; });
      continue;
    }
    if (begin + 1 == end) {
      const float* row = rows[begin];
      const float by = weighted ? weight[begin] : 1.0f;
      emit(i, [=](std::int64_t c) { return by * row[c]; });
      continue;
    }
    if (begin >= last) {
      base = middle = last = begin;
      std::fill(back, back + width, 0.0f);
    }
    for (; last < end; ++last) {
      const float* row = rows[last];
      const float by = weighted ? weight[last] : 1.0f;
#pragma omp simd
      for (std::int64_t c = 0; c < width; ++c) back[c] += by * row[c];
    }
    if (begin > middle) {
      base = begin;
      middle = last;
      front.resize(std::max<std::size_t>(front.size(), (middle - base) * width));
      std::fill(back, back + width, 0.0f);
      for (std::int64_t j = middle - 1; j >= base; --j) {
        const float* row = rows[j];
        const float by = weighted ? weight[j] : 1.0f;
        float* to = front.data() + (j - base) * width;
#pragma omp simd
        for (std::int64_t c = 0; c < width; ++c) to[c] = back[c] += by * row[c];
      }
      std::fill(back, back + width, 0.0f);
    }
    const float* all = front.data() + (begin - base) * width;
    if (begin < middle) {
      emit(i, [&](std::int64_t c) { return all[c] + back[c]; });
    } else {
      emit(i, [&](std::int64_t c) { return back[c]; });
    }
  }
}

// to[i] = the neighbour of from[i] to one side.
template <Side side, class Width>
void neighbour_of(const Line& line, const Read& from, const Write& to, Width width) {
  slide<side == LEFT, true>(line.n, side == LEFT ? line.since : line.until, from, line.exists, width,
                            [&](std::int64_t i, const auto& sum) {
                              const std::int64_t at = line.behind<side>(i);
                              const float share = at < 0 ? 0 : line.shares[side][i];
                              float* out = to[i];
                              if (share == 0) {
#pragma omp simd
                                for (std::int64_t c = 0; c < width; ++c) out[c] = sum(c);
                              } else {
                                const float* row = from[at];
#pragma omp simd
                                for (std::int64_t c = 0; c < width; ++c) out[c] = sum(c) + share * row[c];
                              }
                            });
}

template <Side side>
void neighbour(const Line& line, const Read& from, const Write& to, std::int64_t width) {
  with_width(width, [&](auto known) { neighbour_of<side>(line, from, to, known); });
}

template <Side side, class Width>
void neighbour_of_backward(const Line& line, const Read& gradient, const Read& from, const Write& of_from,
                           float* of_exists, float* of_share, Width width) {
  slide<side == RIGHT, false>(line.n, side == LEFT ? line.seen_until : line.seen_since, gradient, nullptr, width,
                              [&](std::int64_t j, const auto& sum) {
                                const float* row = from[j];
                                const float exists = line.exists[j];
                                float* out = of_from[j];
                                float dot = 0;
#pragma omp simd reduction(+ : dot)
                                for (std::int64_t c = 0; c < width; ++c) {
                                  const float own = sum(c);
                                  out[c] += exists * own;
                                  dot += own * row[c];
                                }
                                of_exists[j] += dot;
                              });
  for (std::int64_t i = 0; i < line.n; ++i) {
    const std::int64_t at = line.behind<side>(i);
    if (at < 0) continue;
    const float *row = from[at], *own = gradient[i];
    const float share = line.shares[side][i];
    float* out = of_from[at];
    float dot = 0;
#pragma omp simd reduction(+ : dot)
    for (std::int64_t c = 0; c < width; ++c) {
      out[c] += share * own[c];
      dot += own[c] * row[c];
    }
    of_share[i] += dot;
  }
}

// Backwards: of_from += the transposed operator on gradient; of_exists and of_share += what concerns them.
template <Side side>
void neighbour_backward(const Line& line, const Read& gradient, const Read& from, const Write& of_from,
                        float* of_exists, float* of_share, std::int64_t width) {
  with_width(width, [&](auto known) {
    neighbour_of_backward<side>(line, gradient, from, of_from, of_exists, of_share, known);
  });
}

// A share is what is left of 1 behind the run, so whatever exists in the run takes from it.
template <Side side>
void shares_backward(const Line& line, const float* of_share, float* of_exists) {
  slide<side == RIGHT, false>(line.n, side == LEFT ? line.seen_until : line.seen_since, Read{of_share, 1}, nullptr,
                              std::integral_constant<std::int64_t, 1>{},
                              [&](std::int64_t j, const auto& sum) { of_exists[j] -= sum(0); });
}

// Gradients of existence from several groups of channels, which are worked on in parallel.
struct OfExists {
  std::int64_t n, groups;
  std::vector<float> all;  // [groups, 3, n]: of existence, and of the shares to both sides

  OfExists(std::int64_t n_, std::int64_t groups_) : n(n_), groups(groups_), all(3 * n_ * groups_, 0.0f) {}
  float* exists(std::int64_t group) { return all.data() + 3 * n * group; }
  float* share(std::int64_t group, Side side) { return exists(group) + (1 + side) * n; }

  void into(const Line& line, float* of_exists) {
    float* total = all.data();
    for (std::int64_t group = 1; group < groups; ++group) {
      const float* more = exists(group);
      for (std::int64_t i = 0; i < 3 * n; ++i) total[i] += more[i];
    }
    shares_backward<LEFT>(line, share(0, LEFT), total);
    shares_backward<RIGHT>(line, share(0, RIGHT), total);
    std::copy(total, total + n, of_exists);
  }
};

// Calls work(row, group, first channel, channels) for all sequences and groups of channels, then after(row).
template <class Work, class After>
void over_groups(std::int64_t batch, std::int64_t n, std::int64_t width, std::int64_t layers, const Work& work,
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

// The runs and shares of every position [B, 4, n], [B, 2, n], from what exists [B, n].
inline std::tuple<Tensor, Tensor> line(const Tensor& exists) {
  const std::int64_t batch = exists.size(0), n = exists.size(1);
  const Tensor spans = at::empty({batch, 4, n}, exists.options().dtype(at::kInt));
  const Tensor shares = at::empty({batch, 2, n}, exists.options());
  const float* all = data(exists);
  std::int32_t* to = spans.mutable_data_ptr<std::int32_t>();
  float* share = mutable_data(shares);
  over_rows(batch, 8 * n, [&](std::int64_t begin, std::int64_t end) {
    std::vector<double> sums(n + 1);
    for (std::int64_t row = begin; row < end; ++row) {
      const float* e = all + n * row;
      std::int32_t *since = to + 4 * n * row, *until = since + n, *seen_until = until + n, *seen_since = seen_until + n;
      float *to_left = share + 2 * n * row, *to_right = to_left + n;
      sums[0] = 0;
      for (std::int64_t i = 0; i < n; ++i) sums[i + 1] = sums[i] + e[i];
      std::int64_t lower = 0, upper = 0;
      for (std::int64_t i = 0; i < n; ++i) {
        while (sums[lower] < sums[i] - 1) ++lower;
        while (upper < n && sums[upper + 1] <= sums[i + 1] + 1) ++upper;
        since[i] = static_cast<std::int32_t>(lower);
        until[i] = static_cast<std::int32_t>(upper);
        to_left[i] = lower > 0 ? static_cast<float>(sums[lower] - sums[i] + 1) : 0;
        to_right[i] = upper < n ? static_cast<float>(sums[i + 1] - sums[upper] + 1) : 0;
      }
      std::int64_t behind = 0, before = 0;
      for (std::int64_t j = 0; j < n; ++j) {
        while (behind < n && since[behind] <= j) ++behind;
        while (before < n && until[before] <= j) ++before;
        seen_until[j] = static_cast<std::int32_t>(std::max(behind, j + 1));
        seen_since[j] = static_cast<std::int32_t>(std::min(before, j));
      }
    }
  });
  return {spans, shares};
}

inline std::int64_t channels(const Tensor& values) { return values.dim() == 3 ? values.size(2) : 1; }

// Values [B, n] or [B, n, d] for existence [B, n].
inline void expect_fitting(const Tensor& values, const Tensor& exists) {
  TORCH_CHECK((values.dim() == 2 || values.dim() == 3) && values.size(0) == exists.size(0) &&
                  values.size(1) == exists.size(1),
              "values of the shape ", values.sizes(), " have no neighbours along a line of the shape ", exists.sizes());
}

// Neighbours to one side of values [B, n] or [B, n, d].
inline Tensor neighbours(const Tensor& values, const Tensor& exists, const Tensor& spans, const Tensor& shares,
                         std::int64_t side) {
  const std::int64_t batch = values.size(0), n = values.size(1), d = channels(values);
  const Tensor found = at::empty_like(values);
  const auto work = [&](std::int64_t row, std::int64_t, std::int64_t channel, std::int64_t width) {
    const Line line(exists, spans, shares, row);
    const Read from{data(values) + row * n * d + channel, d};
    const Write to{mutable_data(found) + row * n * d + channel, d};
    side == LEFT ? neighbour<LEFT>(line, from, to, width) : neighbour<RIGHT>(line, from, to, width);
  };
  over_groups(batch, n, d, 1, work, [](std::int64_t) {});
  return found;
}

struct Neighbours : torch::autograd::Function<Neighbours> {
  static Tensor forward(AutogradContext* context, const Tensor& values, const Tensor& exists, const Tensor& spans,
                        const Tensor& shares, std::int64_t side) {
    at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({values, exists, spans, shares});
    context->saved_data["side"] = side;
    return neighbours(values, exists, spans, shares, side);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = saved_by(context, gradients);
    at::AutoDispatchBelowADInplaceOrView below;
    const Tensor &values = saved[0], &exists = saved[1];
    const Tensor gradient = gradients[0].contiguous();
    const std::int64_t batch = values.size(0), n = values.size(1), d = channels(values);
    const bool left = context->saved_data["side"].toInt() == LEFT;
    const Tensor of_values = at::zeros_like(values), of_exists = at::empty_like(exists);
    std::vector<OfExists> partial(batch, OfExists(n, (d + CHANNELS - 1) / CHANNELS));
    const auto work = [&](std::int64_t row, std::int64_t group, std::int64_t channel, std::int64_t width) {
      const Line line(exists, saved[2], saved[3], row);
      const std::int64_t start = row * n * d + channel;
      const Read of{data(gradient) + start, d}, from{data(values) + start, d};
      const Write to{mutable_data(of_values) + start, d};
      OfExists& sums = partial[row];
      left ? neighbour_backward<LEFT>(line, of, from, to, sums.exists(group), sums.share(group, LEFT), width)
           : neighbour_backward<RIGHT>(line, of, from, to, sums.exists(group), sums.share(group, RIGHT), width);
    };
    over_groups(batch, n, d, 2, work, [&](std::int64_t row) {
      partial[row].into(Line(exists, saved[2], saved[3], row), mutable_data(of_exists) + n * row);
    });
    return {of_values, of_exists, Tensor(), Tensor(), Tensor()};
  }
};

inline Tensor neighbour(const Tensor& values, const Tensor& exists, const Tensor& spans, const Tensor& shares,
                        std::int64_t side) {
  expect_fitting(values, exists);
  if (recording({values, exists})) return Neighbours::apply(values, exists, spans, shares, side);
  return neighbours(values, exists, spans, shares, side);
}

}  // namespace crvnn
