// Sums of rows over the runs of a sliding window: for every position i of n, the sum over a run of consecutive positions
// whose two ends never move to the left as i grows. O(n) additions per channel, and no subtraction.
#pragma once

#include <crvnn/common.h>

namespace crvnn {

// Channels (entries of the width d) that are summed together; the sums fit in registers or the L1 cache.
constexpr std::int64_t CHANNELS = 64;

// A full group of channels as a compile-time constant: SIMD loops over it have no remainder.
using Full = std::integral_constant<std::int64_t, CHANNELS>;

// Calls work(width), with the constant if the group is full.
template <class Work>
void with_width(std::int64_t width, const Work& work) {
  width == CHANNELS ? work(Full{}) : work(width);
}

// A row-major matrix with a stride between rows.
template <class Number>
struct Strided {
  Number* first;
  std::int64_t stride;
  Number* operator[](std::int64_t i) const { return first + i * stride; }
  Strided from(std::int64_t channel) const { return {first + channel, stride}; }
};
using Read = Strided<const float>;
using Write = Strided<float>;

// Calls emit(i, sum) for every position i, where sum(c) is the sum of channel c of the rows of its run, times their
// weights [n] if `weighted`. The runs are [bound[i], i) if `before`, else [i + 1, bound[i]).
//
// A sliding-window sum by two stacks: the front part of the window has suffix sums from each of its positions, the back
// part one running sum; when the front is empty, the back becomes the front, so each row is added at most twice. Nothing
// is subtracted, so small values do not lose digits to large ones that have left the window.
template <bool before, bool weighted, class Width, class Emit>
void run_sums(std::int64_t n, const std::int32_t* bound, const Read& rows, const float* weight, Width width,
              const Emit& emit) {
  alignas(64) float back[CHANNELS] = {};
  std::vector<float> front;  // front[j - base] is the sum of rows [j, middle)
  std::int64_t base = 0, middle = 0, last = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t begin = before ? bound[i] : i + 1, end = before ? i : bound[i];
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
    const float* front_sum = front.data() + (begin - base) * width;
    if (begin < middle) {
      emit(i, [&](std::int64_t c) { return front_sum[c] + back[c]; });
    } else {
      emit(i, [&](std::int64_t c) { return back[c]; });
    }
  }
}

}  // namespace crvnn
