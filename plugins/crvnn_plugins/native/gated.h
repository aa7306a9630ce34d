// The gated recursive cell. The matrix products are torch's; everything between two of them is one pass over memory.
#pragma once

#include <crvnn/activation.h>
#include <crvnn/common.h>
#include <crvnn/weights.h>

namespace crvnn {

// The most rows that are laid side by side for the gradients of weights at once: fewer where memory is to be saved
// (checkpoint = true).
constexpr std::int64_t PORTION = 1024, SMALL_PORTION = 256;

// Rows in a portion, when all are to be of one size.
inline std::int64_t portion_of(std::int64_t rows, bool frugal) {
  const std::int64_t most = frugal ? SMALL_PORTION : PORTION, portions = (rows + most - 1) / most;
  return portions > 1 ? blocks_of((rows + portions - 1) / portions) * BLOCK : rows;
}

struct Gates {
  Tensor expand, expand_bias, gates, gates_bias, scale, shift;
  double eps;
  std::int64_t kind;

  Gates(at::TensorList weights, double eps_, std::int64_t kind_)
      : expand(weights[0]),
        expand_bias(weights[1].contiguous()),
        gates(weights[2]),
        gates_bias(weights[3].contiguous()),
        scale(weights[4].contiguous()),
        shift(weights[5].contiguous()),
        eps(eps_),
        kind(kind_) {}
};

// Both children side by side [m, 2 d].
inline void pair(const Tensor& left, const Tensor& right, const Tensor& children) {
  const std::int64_t rows = left.size(0), d = left.size(1);
  const float *l = data(left), *r = data(right);
  float* to = mutable_data(children);
  for (std::int64_t i = 0; i < rows; ++i) {
    std::copy(l + d * i, l + d * (i + 1), to + 2 * d * i);
    std::copy(r + d * i, r + d * (i + 1), to + 2 * d * i + d);
  }
}

// active = activation(inner + bias), times what dropout has left of each number if there is any
inline void activate(const Tensor& inner, const Tensor& bias, const Tensor& active, std::int64_t kind,
                     const Tensor& dropout) {
  const std::int64_t rows = inner.size(0), h = inner.size(1);
  const float *from = data(inner), *b = data(bias), *left = dropout.defined() ? data(dropout) : nullptr;
  float* to = mutable_data(active);
  with_kind(kind, [&](auto known) {
    for (std::int64_t i = 0; i < rows; ++i) {
      const float* x = from + h * i;
      float* out = to + h * i;
#pragma omp simd
      for (std::int64_t j = 0; j < h; ++j) out[j] = activated<known.value>(x[j] + b[j]).value;
      if (!left) continue;
#pragma omp simd
      for (std::int64_t j = 0; j < h; ++j) out[j] *= left[h * i + j];
    }
  });
}

// From gates before bias and sigmoid [m, 4, d]: what they are after these in their place; parents; and mean and
// 1 / deviation of each row.
inline void mix(const Tensor& mixing, const Tensor& left, const Tensor& right, const Gates& cell,
                const Tensor& parent, const Tensor& moments) {
  const std::int64_t rows = left.size(0), d = left.size(1);
  const float *l = data(left), *r = data(right), *scale = data(cell.scale), *shift = data(cell.shift);
  const float* bias = data(cell.gates_bias);
  float *g = mutable_data(mixing), *p = mutable_data(parent), *m = mutable_data(moments);
  for (std::int64_t i = 0; i < rows; ++i) {
    float *keep_left = g + 4 * d * i, *keep_right = keep_left + d, *take = keep_right + d, *fresh = take + d;
    const float *li = l + d * i, *ri = r + d * i;
    float* out = p + d * i;
#pragma omp simd
    for (std::int64_t j = 0; j < 3 * d; ++j) keep_left[j] = sigmoid(keep_left[j] + bias[j]);
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t j = 0; j < d; ++j) {
      fresh[j] += bias[3 * d + j];
      out[j] = keep_left[j] * li[j] + keep_right[j] * ri[j] + take[j] * fresh[j];
      sum += out[j];
    }
    const float mean = sum / d;
    float squares = 0;
#pragma omp simd reduction(+ : squares)
    for (std::int64_t j = 0; j < d; ++j) squares += (out[j] - mean) * (out[j] - mean);
    const float inverse = 1.0f / std::sqrt(squares / d + static_cast<float>(cell.eps));
#pragma omp simd
    for (std::int64_t j = 0; j < d; ++j) out[j] = (out[j] - mean) * inverse * scale[j] + shift[j];
    m[2 * i] = mean;
    m[2 * i + 1] = inverse;
  }
}

// Backwards through mix; the children side by side again. Sums over rows go to partial [blocks, 6 d]: of gates (4 d),
// scale and shift.
inline void unmix(const Tensor& gradient, const Tensor& mixing, const Tensor& left, const Tensor& right,
                  const Tensor& moments, const Gates& cell, const Tensor& of_mixing,
                  const Tensor& children, const Tensor& of_children, const Tensor& partial) {
  const std::int64_t rows = left.size(0), d = left.size(1);
  const float *dy = data(gradient), *g = data(mixing), *l = data(left), *r = data(right), *m = data(moments);
  const float* scale = data(cell.scale);
  float *dg = mutable_data(of_mixing), *both = mutable_data(children), *of_both = mutable_data(of_children);
  std::vector<float> normal(d);  // a row before scale and shift
  float *sums = mutable_data(partial), *x = normal.data();
  for (std::int64_t i = 0; i < rows; ++i) {
    float *of_gates = sums + 6 * d * (i / BLOCK), *of_scale = of_gates + 4 * d, *of_shift = of_scale + d;
    if (i % BLOCK == 0) std::fill(of_gates, of_gates + 6 * d, 0.0f);
    const float *keep_left = g + 4 * d * i, *keep_right = keep_left + d, *take = keep_right + d, *fresh = take + d;
    const float *li = l + d * i, *ri = r + d * i, *dyi = dy + d * i;
    float *dgi = dg + 4 * d * i, *pair = both + 2 * d * i, *of_pair = of_both + 2 * d * i;
    const float mean = m[2 * i], inverse = m[2 * i + 1];
    float along = 0, total = 0;
#pragma omp simd reduction(+ : along, total)
    for (std::int64_t j = 0; j < d; ++j) {
      x[j] = (keep_left[j] * li[j] + keep_right[j] * ri[j] + take[j] * fresh[j] - mean) * inverse;
      const float own = dyi[j] * scale[j];
      total += own;
      along += own * x[j];
    }
    total /= d;
    along /= d;
#pragma omp simd
    for (std::int64_t j = 0; j < d; ++j) {
      of_scale[j] += dyi[j] * x[j];
      of_shift[j] += dyi[j];
      const float of_sum = (dyi[j] * scale[j] - total - x[j] * along) * inverse;
      const float a = of_sum * li[j] * keep_left[j] * (1 - keep_left[j]);
      const float b = of_sum * ri[j] * keep_right[j] * (1 - keep_right[j]);
      const float c = of_sum * fresh[j] * take[j] * (1 - take[j]);
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

// Backwards through the activation, in place; the activations again; sums over rows to partial [blocks, h].
inline void inactivate(const Tensor& gradient, const Tensor& inner, const Tensor& bias, std::int64_t kind,
                       const Tensor& dropout, const Tensor& active, const Tensor& partial) {
  const std::int64_t rows = inner.size(0), h = inner.size(1);
  const float *x = data(inner), *b = data(bias), *left = dropout.defined() ? data(dropout) : nullptr;
  float *g = mutable_data(gradient), *a = mutable_data(active), *sums = mutable_data(partial);
  with_kind(kind, [&](auto known) {
    for (std::int64_t i = 0; i < rows; ++i) {
      float* sum = sums + h * (i / BLOCK);
      if (i % BLOCK == 0) std::fill(sum, sum + h, 0.0f);
      const float* xi = x + h * i;
      float *gi = g + h * i, *ai = a + h * i;
#pragma omp simd
      for (std::int64_t j = 0; j < h; ++j) {
        const Activated found = activated<known.value>(xi[j] + b[j]);
        ai[j] = found.value;
        gi[j] *= found.slope;
      }
      if (left) {
#pragma omp simd
        for (std::int64_t j = 0; j < h; ++j) {
          ai[j] *= left[h * i + j];
          gi[j] *= left[h * i + j];
        }
      }
#pragma omp simd
      for (std::int64_t j = 0; j < h; ++j) sum[j] += gi[j];
    }
  });
}

struct Composed {
  Tensor parent, inner, mixing, moments;
};

// From children [m, d], and what dropout leaves of the inner numbers [m, h]. Unless it is all to be kept, there are only
// the parents afterwards.
inline Composed compose(const Tensor& left, const Tensor& right, const Gates& cell, const Tensor& dropout, bool keep) {
  const std::int64_t rows = left.size(0), d = left.size(1), h = cell.expand.size(0);
  const Chunks chunks(rows);
  const std::int64_t room = chunks.threads * chunks.size, kept = keep ? rows : room;
  const auto make = [&](std::int64_t n, std::int64_t width) { return at::empty({n, width}, left.options()); };
  const bool frugal = keep && saving_memory();
  Composed made{make(rows, d), room_for({kept, h}, left.options(), frugal),
                room_for({kept, 4 * d}, left.options(), frugal), make(rows, 2)};
  const Tensor children = make(room, 2 * d), active = keep ? make(room, h) : made.inner;
  const Tensor to_inner = transposed(cell.expand), to_gates = transposed(cell.gates);
  chunks.each([&](std::int64_t thread, std::int64_t first, std::int64_t last) {
    at::AutoDispatchBelowADInplaceOrView also_here;
    const std::int64_t place = thread * chunks.size, from = keep ? first : place, size = last - first;
    const Tensor l = part(left, first, last), r = part(right, first, last);
    const Tensor both = part(children, place, place + size), act = part(active, place, place + size);
    Tensor inner = part(made.inner, from, from + size), mixing = part(made.mixing, from, from + size);
    pair(l, r, both);
    at::mm_out(inner, both, to_inner);
    activate(inner, cell.expand_bias, act, cell.kind, dropout.defined() ? part(dropout, first, last) : dropout);
    at::mm_out(mixing, act, to_gates);
    mix(mixing, l, r, cell, part(made.parent, first, last), part(made.moments, first, last));
  });
  return made;
}

// From all steps: the gradients of the six weights. The vectors are those of gates (4 d), scale, shift, and expand (h).
struct CellGathering : Gathering {
  explicit CellGathering(const variable_list& weights)
      : d(weights[4].numel()), h(weights[0].size(0)), options(weights[0].options()) {}
  std::int64_t d, h;
  at::TensorOptions options;

  Gathered begin() const override { return {{{4 * d, h}, {h, 2 * d}}, 6 * d + h, options}; }

  variable_list finish(const Gathered& all) const override {
    return {all.matrix(1),        all.vector(6 * d, h), all.matrix(0),
            all.vector(0, 4 * d), all.vector(4 * d, d), all.vector(5 * d, d)};
  }
};

struct Gated : torch::autograd::Function<Gated> {
  static Tensor forward(AutogradContext* context, const Tensor& left, const Tensor& right, at::TensorList weights,
                        const c10::intrusive_ptr<Weights>& shared, double eps, std::int64_t kind,
                        const std::optional<Tensor>& dropout) {
    at::AutoDispatchBelowADInplaceOrView below;
    const Tensor l = in_rows(left), r = in_rows(right), dropped = dropout ? in_rows(*dropout) : Tensor();
    const Composed made = compose(l, r, Gates(weights, eps, kind), dropped, true);
    variable_list kept{left, right, made.inner, made.mixing, made.moments, dropped};
    kept.insert(kept.end(), weights.begin(), weights.end());
    context->save_for_backward(kept);
    context->saved_data["weights"] = c10::IValue::make_capsule(shared);
    context->saved_data["eps"] = eps;
    context->saved_data["kind"] = kind;
    context->saved_data["frugal"] = saving_memory();
    return made.parent.view(left.sizes());
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = saved_by(context, gradients);
    at::AutoDispatchBelowADInplaceOrView below;
    const Tensor left = in_rows(saved[0]), right = in_rows(saved[1]);
    const Gates cell(at::TensorList(saved).slice(6), context->saved_data["eps"].toDouble(),
                     context->saved_data["kind"].toInt());
    const Place place(context, 2);
    Gathered& weights = *place;
    const Tensor gradient = in_rows(gradients[0]);
    const std::int64_t rows = left.size(0), d = left.size(1), h = cell.expand.size(0);
    const bool frugal = context->saved_data["frugal"].toBool();
    const std::int64_t portion = portion_of(rows, frugal);
    const auto make = [&](std::int64_t n, std::int64_t width) { return at::empty({n, width}, left.options()); };
    const Tensor of_children = room_for({rows, 2 * d}, left.options(), frugal);
    for (std::int64_t begin = 0; begin < rows; begin += portion) {
      const std::int64_t size = std::min(portion, rows - begin);
      const variable_list room = weights.room(size, frugal);  // gradients of gates, activations; of the inner rows, children
      const Tensor mixed_sums = make(blocks_of(size), 6 * d), inner_sums = make(blocks_of(size), h);
      Chunks(size, BLOCK).each([&](std::int64_t, std::int64_t first, std::int64_t last) {
        at::AutoDispatchBelowADInplaceOrView also_here;
        const auto of_all = [&](const Tensor& all) { return part(all, begin + first, begin + last); };
        const auto sums = [&](const Tensor& all) { return part(all, first / BLOCK, blocks_of(last)); };
        const Tensor of_mix = part(room[0], first, last), act = part(room[1], first, last);
        Tensor of_in = part(room[2], first, last), of_both = of_all(of_children);
        unmix(of_all(gradient), of_all(saved[3]), of_all(left), of_all(right), of_all(saved[4]), cell, of_mix,
              part(room[3], first, last), of_both, sums(mixed_sums));
        at::mm_out(of_in, of_mix, cell.gates);
        inactivate(of_in, of_all(saved[2]), cell.expand_bias, cell.kind,
                   saved[5].defined() ? of_all(saved[5]) : Tensor(), act, sums(inner_sums));
        of_both.addmm_(of_in, cell.expand);
      });
      weights.add_sums(mixed_sums, 0);
      weights.add_sums(inner_sums, 6 * d);
    }
    if (frugal) weights.settle(false);
    std::vector<std::int64_t> shape = gradients[0].sizes().vec();
    shape.back() = 2 * d;
    const Tensor of_both = of_children.view(shape);
    variable_list found(2 + 6 + 4);
    found[0] = of_both.narrow(-1, 0, d);
    found[1] = of_both.narrow(-1, d, d);
    return found;
  }
};

// Parents of children, [..., d] each.
inline Tensor gated(const Tensor& left, const Tensor& right, const Tensor& expand, const Tensor& expand_bias,
                    const Tensor& gates, const Tensor& gates_bias, const Tensor& scale, const Tensor& shift,
                    double eps, std::int64_t kind, const std::optional<Tensor>& dropout) {
  TORCH_CHECK(!dropout || dropout->numel() == left.numel() / left.size(-1) * expand.size(0), "dropout of the shape ",
              dropout->sizes(), " does not fit ", expand.size(0), " inner numbers of each node");
  TORCH_CHECK(left.sizes() == right.sizes() && 2 * left.size(-1) == expand.size(1), "children of the shapes ",
              left.sizes(), " and ", right.sizes(), " do not fit a cell of width ", expand.size(1) / 2);
  const variable_list weights{expand, expand_bias, gates, gates_bias, scale, shift};
  if (recording({left, right}, weights)) {
    const auto shared = weights_for<CellGathering>(weights);
    return Gated::apply(left, right, at::TensorList(shared->shared), shared, eps, kind, dropout);
  }
  const Tensor dropped = dropout ? in_rows(*dropout) : Tensor();
  return compose(in_rows(left), in_rows(right), Gates(weights, eps, kind), dropped, false).parent.view(left.sizes());
}

}  // namespace crvnn
