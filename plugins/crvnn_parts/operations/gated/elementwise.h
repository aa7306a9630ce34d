// The elementwise parts of the gated cell, forward and backward: concatenation of the children, activation with dropout,
// gates and LayerNorm. Each is one single-threaded pass over a chunk of m rows; gated.h runs the GEMMs between them.
#pragma once

#include <cmath>

#include <crvnn/activation.h>
#include <crvnn/common.h>

namespace crvnn {

// The cell's weights, contiguous where kernels read them directly.
struct CellWeights {
  Tensor expand, expand_bias, gates, gates_bias, scale, shift;
  double eps;
  std::int64_t kind;

  CellWeights(at::TensorList weights, double eps_, std::int64_t kind_)
      : expand(weights[0]),
        expand_bias(weights[1].contiguous()),
        gates(weights[2]),
        gates_bias(weights[3].contiguous()),
        scale(weights[4].contiguous()),
        shift(weights[5].contiguous()),
        eps(eps_),
        kind(kind_) {}
};

// Writes [left, right] to children [m, 2 d].
inline void concatenate(const Tensor& left, const Tensor& right, const Tensor& children) {
  const std::int64_t rows = left.size(0), d = left.size(1);
  const float *l = data(left), *r = data(right);
  float* to = mutable_data(children);
  for (std::int64_t i = 0; i < rows; ++i) {
    std::copy(l + d * i, l + d * (i + 1), to + 2 * d * i);
    std::copy(r + d * i, r + d * (i + 1), to + 2 * d * i + d);
  }
}

// active = activation(inner + bias), times the dropout mask if there is one
inline void activate(const Tensor& inner, const Tensor& bias, const Tensor& active, std::int64_t kind,
                     const Tensor& dropout) {
  const std::int64_t rows = inner.size(0), h = inner.size(1);
  const float *from = data(inner), *b = data(bias), *mask = dropout.defined() ? data(dropout) : nullptr;
  float* to = mutable_data(active);
  with_kind(kind, [&](auto known) {
    for (std::int64_t i = 0; i < rows; ++i) {
      const float* x = from + h * i;
      float* out = to + h * i;
#pragma omp simd
      for (std::int64_t j = 0; j < h; ++j) out[j] = activated<known.value>(x[j] + b[j]).value;
      if (!mask) continue;
#pragma omp simd
      for (std::int64_t j = 0; j < h; ++j) out[j] *= mask[h * i + j];
    }
  });
}

// From gates before bias and sigmoid [m, 4, d], which are overwritten by their values after these: writes parents [m, d]
// and the LayerNorm statistics of each row, mean and reciprocal standard deviation [m, 2].
inline void mix(const Tensor& mixing, const Tensor& left, const Tensor& right, const CellWeights& cell,
                const Tensor& parent, const Tensor& statistics) {
  const std::int64_t rows = left.size(0), d = left.size(1);
  const float *l = data(left), *r = data(right), *scale = data(cell.scale), *shift = data(cell.shift);
  const float* bias = data(cell.gates_bias);
  float *g = mutable_data(mixing), *p = mutable_data(parent), *m = mutable_data(statistics);
  for (std::int64_t i = 0; i < rows; ++i) {
    float *keep_left = g + 4 * d * i, *keep_right = keep_left + d, *take = keep_right + d, *candidate = take + d;
    const float *li = l + d * i, *ri = r + d * i;
    float* out = p + d * i;
#pragma omp simd
    for (std::int64_t j = 0; j < 3 * d; ++j) keep_left[j] = sigmoid(keep_left[j] + bias[j]);
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t j = 0; j < d; ++j) {
      candidate[j] += bias[3 * d + j];
      out[j] = keep_left[j] * li[j] + keep_right[j] * ri[j] + take[j] * candidate[j];
      sum += out[j];
    }
    const float mean = sum / d;
    float squares = 0;
#pragma omp simd reduction(+ : squares)
    for (std::int64_t j = 0; j < d; ++j) squares += (out[j] - mean) * (out[j] - mean);
    const float rstd = 1.0f / std::sqrt(squares / d + static_cast<float>(cell.eps));
#pragma omp simd
    for (std::int64_t j = 0; j < d; ++j) out[j] = (out[j] - mean) * rstd * scale[j] + shift[j];
    m[2 * i] = mean;
    m[2 * i + 1] = rstd;
  }
}

// The backward pass of mix: writes the gradients of the gates before the sigmoid [m, 4, d] and of the children by way of
// the gated sum [m, 2 d]. Recomputes the concatenated children, which the deferred gradients need. Column sums per block
// go to partial [blocks, 6 d]: the gradients of gates_bias (4 d), scale and shift.
inline void mix_backward(const Tensor& gradient, const Tensor& mixing, const Tensor& left, const Tensor& right,
                         const Tensor& statistics, const CellWeights& cell, const Tensor& of_mixing,
                         const Tensor& children, const Tensor& of_children, const Tensor& partial) {
  const std::int64_t rows = left.size(0), d = left.size(1);
  const float *dy = data(gradient), *g = data(mixing), *l = data(left), *r = data(right), *m = data(statistics);
  const float* scale = data(cell.scale);
  float *dg = mutable_data(of_mixing), *both = mutable_data(children), *of_both = mutable_data(of_children);
  std::vector<float> normalized(d);  // a row before scale and shift
  float *sums = mutable_data(partial), *x = normalized.data();
  for (std::int64_t i = 0; i < rows; ++i) {
    float *of_gates = sums + 6 * d * (i / BLOCK), *of_scale = of_gates + 4 * d, *of_shift = of_scale + d;
    if (i % BLOCK == 0) std::fill(of_gates, of_gates + 6 * d, 0.0f);
    const float *keep_left = g + 4 * d * i, *keep_right = keep_left + d, *take = keep_right + d, *candidate = take + d;
    const float *li = l + d * i, *ri = r + d * i, *dyi = dy + d * i;
    float *dgi = dg + 4 * d * i, *pair = both + 2 * d * i, *of_pair = of_both + 2 * d * i;
    const float mean = m[2 * i], rstd = m[2 * i + 1];
    float mean_product = 0, mean_gradient = 0;  // of the gradient of x times x, and of that gradient
#pragma omp simd reduction(+ : mean_product, mean_gradient)
    for (std::int64_t j = 0; j < d; ++j) {
      x[j] = (keep_left[j] * li[j] + keep_right[j] * ri[j] + take[j] * candidate[j] - mean) * rstd;
      const float own = dyi[j] * scale[j];
      mean_gradient += own;
      mean_product += own * x[j];
    }
    mean_gradient /= d;
    mean_product /= d;
#pragma omp simd
    for (std::int64_t j = 0; j < d; ++j) {
      of_scale[j] += dyi[j] * x[j];
      of_shift[j] += dyi[j];
      const float of_sum = (dyi[j] * scale[j] - mean_gradient - x[j] * mean_product) * rstd;
      const float a = of_sum * li[j] * keep_left[j] * (1 - keep_left[j]);
      const float b = of_sum * ri[j] * keep_right[j] * (1 - keep_right[j]);
      const float c = of_sum * candidate[j] * take[j] * (1 - take[j]);
      const float e = of_sum * take[j];
      dgi[j] = a;
      dgi[d + j] = b;
      dgi[2 * d + j] = c;
      dgi[3 * d + j] = e;
      of_gates[j] += a;
      of_gates[d + j] += b;
      of_gates[2 * d + j] += c;
      of_gates[3 * d + j] += e;
      of_pair[j] = of_sum * keep_left[j];
      of_pair[d + j] = of_sum * keep_right[j];
      pair[j] = li[j];
      pair[d + j] = ri[j];
    }
  }
}

// The backward pass of activate, with the gradient [m, h] overwritten; recomputes the activations. Column sums per block
// go to partial [blocks, h].
inline void activate_backward(const Tensor& gradient, const Tensor& inner, const Tensor& bias, std::int64_t kind,
                              const Tensor& dropout, const Tensor& active, const Tensor& partial) {
  const std::int64_t rows = inner.size(0), h = inner.size(1);
  const float *x = data(inner), *b = data(bias), *mask = dropout.defined() ? data(dropout) : nullptr;
  float *g = mutable_data(gradient), *a = mutable_data(active), *sums = mutable_data(partial);
  with_kind(kind, [&](auto known) {
    for (std::int64_t i = 0; i < rows; ++i) {
      float* sum = sums + h * (i / BLOCK);
      if (i % BLOCK == 0) std::fill(sum, sum + h, 0.0f);
      const float* xi = x + h * i;
      float *gi = g + h * i, *ai = a + h * i;
#pragma omp simd
      for (std::int64_t j = 0; j < h; ++j) {
        const Activated act = activated<known.value>(xi[j] + b[j]);
        ai[j] = act.value;
        gi[j] *= act.derivative;
      }
      if (mask) {
#pragma omp simd
        for (std::int64_t j = 0; j < h; ++j) {
          ai[j] *= mask[h * i + j];
          gi[j] *= mask[h * i + j];
        }
      }
#pragma omp simd
      for (std::int64_t j = 0; j < h; ++j) sum[j] += gi[j];
    }
  });
}

}  // namespace crvnn
