// Activations and their slopes, written so that a compiler can work on many numbers at once.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace crvnn {

enum class Kind { gelu, gelu_tanh, relu };

// exp(x) to about float32's precision: 2^k times a Taylor series within half of log 2.
inline float exponential(float x) {
  x = x < -87.0f ? -87.0f : x;
  x = x > 88.0f ? 88.0f : x;
  const float magic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to whole numbers, which end up in the last bits
  const float shifted = x * 1.44269504f + magic;
  const float k = shifted - magic;
  const float r = (x - k * 0.693145752f) - k * 1.42860677e-6f;  // log 2 in two parts
  float sum = 1.0f / 720;
  sum = sum * r + 1.0f / 120;
  sum = sum * r + 1.0f / 24;
  sum = sum * r + 1.0f / 6;
  sum = sum * r + 0.5f;
  sum = sum * r + 1.0f;
  sum = sum * r + 1.0f;
  std::uint32_t bits, power;
  std::memcpy(&bits, &sum, sizeof bits);
  std::memcpy(&power, &shifted, sizeof power);
  bits += power << 23;  // into the exponent
  std::memcpy(&sum, &bits, sizeof sum);
  return x == x ? sum : x;  // what is not a number stays so
}

inline float sigmoid(float x) { return 1.0f / (1.0f + exponential(-x)); }

struct Activated {
  float value, slope;
};

// GeLU is x times the normal distribution function, here by formula 7.1.26 of Abramowitz and Stegun (error below
// 1.5e-7). Its slope takes the same exponential.
template <Kind kind>
inline Activated activated(float x) {
  if constexpr (kind == Kind::relu) {
    return {x < 0 ? 0.0f : x, x > 0 ? 1.0f : 0.0f};
  } else if constexpr (kind == Kind::gelu) {
    const float bell = exponential(-0.5f * x * x);
    const float t = 1.0f / (1.0f + 0.3275911f * 0.707106781f * std::fabs(x));
    float sum = 1.061405429f;
    sum = sum * t - 1.453152027f;
    sum = sum * t + 1.421413741f;
    sum = sum * t - 0.284496736f;
    sum = sum * t + 0.254829592f;
    const float tail = 0.5f * sum * t * bell;
    const float below = x < 0 ? tail : 1.0f - tail;
    return {x * below, below + x * bell * 0.398942280f};
  } else {
    const float twice = 1.59576912f;  // 2 sqrt(2 / pi)
    const float below = sigmoid(twice * (x + 0.044715f * x * x * x));
    const float inside = twice * (1.0f + 0.134145f * x * x);
    return {x * below, below + x * below * (1.0f - below) * inside};
  }
}

// Calls work with a kind that is known when compiling.
template <class Work>
void with_kind(std::int64_t kind, const Work& work) {
  switch (static_cast<Kind>(kind)) {
    case Kind::gelu: return work(std::integral_constant<Kind, Kind::gelu>{});
    case Kind::gelu_tanh: return work(std::integral_constant<Kind, Kind::gelu_tanh>{});
    default: return work(std::integral_constant<Kind, Kind::relu>{});
  }
}

}  // namespace crvnn
