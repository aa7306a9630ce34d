// Activation functions with their derivatives, and the exponential and sigmoid that they need, for float32 scalars.
// They have no branches and call no library function, so loops over them vectorize (SIMD).
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace crvnn {

enum class Kind { gelu, gelu_tanh, relu };

// Returns exp(x) to about float32 precision, saturated outside [-87, 88]: with x = k log 2 + r, that is 2^k times a
// Taylor polynomial in r, |r| <= log(2) / 2. NaN gives NaN.
inline float exponential(float x) {
  x = x < -87.0f ? -87.0f : x;
  x = x > 88.0f ? 88.0f : x;
  const float magic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer, held in the low mantissa bits
  const float shifted = x * 1.44269504f + magic;
  const float k = shifted - magic;
  const float r = (x - k * 0.693145752f) - k * 1.42860677e-6f;  // log 2 as a sum of two floats
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
  bits += power << 23;  // adds k to the exponent
  std::memcpy(&sum, &bits, sizeof sum);
  return x == x ? sum : x;  // propagates NaN
}

inline float sigmoid(float x) { return 1.0f / (1.0f + exponential(-x)); }

// An activation and its derivative at the same input.
struct Activated {
  float value, derivative;
};

// Returns an activation of x and its derivative. GELU is x times the normal distribution function, here by formula
// 7.1.26 of Abramowitz and Stegun (error below 1.5e-7); value and derivative share one exponential.
template <Kind kind>
inline Activated activated(float x) {
  if constexpr (kind == Kind::relu) {
    return {x < 0 ? 0.0f : x, x > 0 ? 1.0f : 0.0f};
  } else if constexpr (kind == Kind::gelu) {
    const float density = exponential(-0.5f * x * x);  // of the normal distribution, without 1 / sqrt(2 pi)
    const float t = 1.0f / (1.0f + 0.3275911f * 0.707106781f * std::fabs(x));
    float sum = 1.061405429f;
    sum = sum * t - 1.453152027f;
    sum = sum * t + 1.421413741f;
    sum = sum * t - 0.284496736f;
    sum = sum * t + 0.254829592f;
    const float tail = 0.5f * sum * t * density;
    const float cdf = x < 0 ? tail : 1.0f - tail;
    return {x * cdf, cdf + x * density * 0.398942280f};
  } else {
    const float scale = 1.59576912f;  // 2 sqrt(2 / pi)
    const float cdf = sigmoid(scale * (x + 0.044715f * x * x * x));
    const float inner_derivative = scale * (1.0f + 0.134145f * x * x);
    return {x * cdf, cdf + x * cdf * (1.0f - cdf) * inner_derivative};
  }
}

// Calls work(std::integral_constant<Kind, ...>), so that the activation is known at compile time inside it.
template <class Work>
void with_kind(std::int64_t kind, const Work& work) {
  switch (static_cast<Kind>(kind)) {
    case Kind::gelu: return work(std::integral_constant<Kind, Kind::gelu>{});
    case Kind::gelu_tanh: return work(std::integral_constant<Kind, Kind::gelu_tanh>{});
    default: return work(std::integral_constant<Kind, Kind::relu>{});
  }
}

}  // namespace crvnn
