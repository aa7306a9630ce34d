// Soft neighbours (Eq. 5) in linear time: sums over runs of positions that only ever move to the right.
//
// With E the sums of e before each position, everything that lies within 1 of a position on the line E is its soft
// neighbour: a run of whole positions, and a share of the one behind them.
#pragma once

#include "common.h"

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

// One step's decisions c [B, n], with nothing where a position is not eligible; left(c), with nothing where there is no
// token; and what exists then, e (1 - c).
inline std::tuple<Tensor, Tensor, Tensor> advanced(const Tensor& compose, const Tensor& exists, const Tensor& eligible,
                                                   const Tensor& tokens, const Tensor& along, const Tensor& spans,
                                                   const Tensor& shares) {
  const std::int64_t batch = exists.size(0), n = exists.size(1);
  const Tensor chosen = at::empty_like(exists), gained = at::empty_like(exists), after = at::empty_like(exists);
  over_rows(batch, 16 * n, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t row = first; row < last; ++row) {
      const float *from = data(compose) + n * row, *e = data(exists) + n * row;
      const bool* may = eligible.const_data_ptr<bool>() + n * row;
      const bool* token = tokens.const_data_ptr<bool>() + n * row;
      float *c = mutable_data(chosen) + n * row, *g = mutable_data(gained) + n * row;
      float* left = mutable_data(after) + n * row;
      for (std::int64_t i = 0; i < n; ++i) c[i] = may[i] ? from[i] : 0;
      neighbour<LEFT>(Line(along, spans, shares, row), Read{c, 1}, Write{g, 1}, 1);
      for (std::int64_t i = 0; i < n; ++i) {
        g[i] = token[i] ? g[i] : 0;
        left[i] = e[i] - e[i] * c[i];
      }
    }
  });
  return {chosen, gained, after};
}

struct Advance : torch::autograd::Function<Advance> {
  static variable_list forward(AutogradContext* context, const Tensor& compose, const Tensor& exists,
                               const Tensor& eligible, const Tensor& tokens, const Tensor& along, const Tensor& spans,
                               const Tensor& shares) {
    at::AutoDispatchBelowADInplaceOrView below;
    const auto [chosen, gained, after] = advanced(compose, exists, eligible, tokens, along, spans, shares);
    context->save_for_backward({chosen, exists, eligible, tokens, along, spans, shares});
    context->set_materialize_grads(false);
    return {chosen, gained, after};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = saved_by(context, gradients);
    at::AutoDispatchBelowADInplaceOrView below;
    const Tensor &chosen = saved[0], &exists = saved[1], &along = saved[4];
    const std::int64_t batch = exists.size(0), n = exists.size(1);
    const auto given = [&](std::size_t i) {
      return gradients[i].defined() ? gradients[i].contiguous() : at::zeros_like(exists);
    };
    const Tensor of_chosen = given(0), of_gained = given(1), of_after = given(2);
    const Tensor of_compose = at::empty_like(exists), of_exists = at::empty_like(exists);
    const Tensor of_along = at::empty_like(exists);
    over_rows(batch, 32 * n, [&](std::int64_t first, std::int64_t last) {
      std::vector<float> masked(n);
      for (std::int64_t row = first; row < last; ++row) {
        const Line line(along, saved[5], saved[6], row);
        const float *c = data(chosen) + n * row, *e = data(exists) + n * row, *left = data(of_after) + n * row;
        const float *direct = data(of_chosen) + n * row, *g = data(of_gained) + n * row;
        const bool* may = saved[2].const_data_ptr<bool>() + n * row;
        const bool* token = saved[3].const_data_ptr<bool>() + n * row;
        float *to = mutable_data(of_compose) + n * row, *to_exists = mutable_data(of_exists) + n * row;
        for (std::int64_t i = 0; i < n; ++i) {
          masked[i] = token[i] ? g[i] : 0;
          to[i] = direct[i] - left[i] * e[i];
          to_exists[i] = left[i] - left[i] * c[i];
        }
        OfExists sums(n, 1);
        neighbour_backward<LEFT>(line, Read{masked.data(), 1}, Read{c, 1}, Write{to, 1}, sums.exists(0),
                                 sums.share(0, LEFT), 1);
        sums.into(line, mutable_data(of_along) + n * row);
        for (std::int64_t i = 0; i < n; ++i) to[i] = may[i] ? to[i] : 0;
      }
    });
    return {of_compose, of_exists, Tensor(), Tensor(), of_along, Tensor(), Tensor()};
  }
};

inline std::tuple<Tensor, Tensor, Tensor> advance(const Tensor& compose, const Tensor& exists, const Tensor& eligible,
                                                  const Tensor& tokens, const Tensor& along, const Tensor& spans,
                                                  const Tensor& shares) {
  for (const Tensor& given : {compose, exists, eligible, tokens}) expect_fitting(given, along);
  if (!recording({compose, exists, along})) return advanced(compose, exists, eligible, tokens, along, spans, shares);
  const variable_list found = Advance::apply(compose, exists, eligible, tokens, along, spans, shares);
  return {found[0], found[1], found[2]};
}

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
