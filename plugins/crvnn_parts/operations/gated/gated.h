// The gated recursive cell: parents of children [m, d] by two affine maps, gates and a LayerNorm,
//
//   inner = activation(expand [left, right] + expand_bias), times the dropout mask      [m, h]
//   l, r, t, candidate = gates inner + gates_bias                                       [m, 4 d]
//   parent = LayerNorm(sigmoid(l) left + sigmoid(r) right + sigmoid(t) candidate)       [m, d]
//
// The elementwise work between the two GEMMs (gemm.h) is fused. Weight gradients are deferred (weights.h).
#pragma once

#include <crvnn/activation.h>
#include <crvnn/common.h>
#include <crvnn/weights.h>

#include "elementwise.h"

namespace crvnn {

// The most rows that are appended to the deferred gradients at once, which bounds their buffer; fewer under activation
// checkpointing, to save memory.
constexpr std::int64_t PASS_ROWS = 1024, CHECKPOINTING_PASS_ROWS = 256;

// Returns how many rows to process per pass, so that all passes but the last are of one size, a multiple of BLOCK.
inline std::int64_t rows_per_pass(std::int64_t rows, bool checkpointing) {
  const std::int64_t most = checkpointing ? CHECKPOINTING_PASS_ROWS : PASS_ROWS, passes = (rows + most - 1) / most;
  return passes > 1 ? blocks_of((rows + passes - 1) / passes) * BLOCK : rows;
}

// Results of the forward pass: parents [m, d]; for the backward pass inner before its bias [m, h], gates after their
// sigmoids [m, 4 d], LayerNorm statistics [m, 2].
struct Composed {
  Tensor parent, inner, mixing, statistics;
};

// Returns the forward pass for children [m, d] and a dropout mask [m, h]. Without save, inner and gates are scratch
// buffers of one chunk per thread, and only the parents are meaningful.
inline Composed compose(const Tensor& left, const Tensor& right, const CellWeights& cell, const Tensor& dropout,
                           bool save) {
  const std::int64_t rows = left.size(0), d = left.size(1), h = cell.expand.size(0);
  const Chunks chunks(rows);
  const std::int64_t scratch_rows = chunks.threads * chunks.size, kept_rows = save ? rows : scratch_rows;
  const auto empty = [&](std::int64_t n, std::int64_t width) { return at::empty({n, width}, left.options()); };
  const bool checkpointing = save && is_checkpointing();
  Composed result{empty(rows, d), scratch({kept_rows, h}, left.options(), checkpointing),
                     scratch({kept_rows, 4 * d}, left.options(), checkpointing), empty(rows, 2)};
  const Tensor children = empty(scratch_rows, 2 * d), active = save ? empty(scratch_rows, h) : result.inner;
  const Factor to_inner = transposed_factor(cell.expand, 2 * d), to_gates = transposed_factor(cell.gates, h);
  chunks.each([&](std::int64_t thread, std::int64_t first, std::int64_t last) {
    at::AutoDispatchBelowADInplaceOrView below;
    const std::int64_t offset = thread * chunks.size, from = save ? first : offset, size = last - first;
    const Tensor l = slice_rows(left, first, last), r = slice_rows(right, first, last);
    const Tensor both = slice_rows(children, offset, offset + size), act = slice_rows(active, offset, offset + size);
    Tensor inner = slice_rows(result.inner, from, from + size), mixing = slice_rows(result.mixing, from, from + size);
    concatenate(l, r, both);
    multiply(both, to_inner, inner);
    activate(inner, cell.expand_bias, act, cell.kind, dropout.defined() ? slice_rows(dropout, first, last) : dropout);
    multiply(act, to_gates, mixing);
    mix(mixing, l, r, cell, slice_rows(result.parent, first, last), slice_rows(result.statistics, first, last));
  });
  return result;
}

// The deferred gradients of the cell's six weights: the matrices gates and expand; in one array the vectors gates_bias
// (4 d), scale, shift, and expand_bias (h).
struct CellGradients : WeightGradients {
  explicit CellGradients(const variable_list& weights)
      : d(weights[4].numel()), h(weights[0].size(0)), options(weights[0].options()) {}
  std::int64_t d, h;
  at::TensorOptions options;

  DeferredGradients start() const override { return {{{4 * d, h}, {h, 2 * d}}, 6 * d + h, options}; }

  variable_list finish(const DeferredGradients& all) const override {
    return {all.matrix(1),        all.vector(6 * d, h), all.matrix(0),
            all.vector(0, 4 * d), all.vector(4 * d, d), all.vector(5 * d, d)};
  }
};

struct Gated : torch::autograd::Function<Gated> {
  static Tensor forward(AutogradContext* context, const Tensor& left, const Tensor& right, at::TensorList weights,
                        const c10::intrusive_ptr<SharedWeights>& shared, double eps, std::int64_t kind,
                        const std::optional<Tensor>& dropout) {
    at::AutoDispatchBelowADInplaceOrView below;
    const Tensor l = as_matrix(left), r = as_matrix(right), mask = dropout ? as_matrix(*dropout) : Tensor();
    const Composed result = compose(l, r, CellWeights(weights, eps, kind), mask, true);
    variable_list saved{left, right, result.inner, result.mixing, result.statistics, mask};
    saved.insert(saved.end(), weights.begin(), weights.end());
    context->save_for_backward(saved);
    context->saved_data["weights"] = c10::IValue::make_capsule(shared);
    context->saved_data["eps"] = eps;
    context->saved_data["kind"] = kind;
    context->saved_data["checkpointing"] = is_checkpointing();
    return result.parent.view(left.sizes());
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = saved_tensors(context, gradients);
    at::AutoDispatchBelowADInplaceOrView below;
    const Tensor left = as_matrix(saved[0]), right = as_matrix(saved[1]);
    const CellWeights cell(at::TensorList(saved).slice(6), context->saved_data["eps"].toDouble(),
                           context->saved_data["kind"].toInt());
    const StepGradients step(context, 2);
    DeferredGradients& weights = *step;
    const Factor by_gates = step.factor(2, cell.gates), by_expand = step.factor(0, cell.expand);
    const Tensor gradient = as_matrix(gradients[0]);
    const std::int64_t rows = left.size(0), d = left.size(1), h = cell.expand.size(0);
    const bool checkpointing = context->saved_data["checkpointing"].toBool();
    const std::int64_t most = rows_per_pass(rows, checkpointing);
    const auto empty = [&](std::int64_t n, std::int64_t width) { return at::empty({n, width}, left.options()); };
    const Tensor of_children = scratch({rows, 2 * d}, left.options(), checkpointing);
    for (std::int64_t begin = 0; begin < rows; begin += most) {
      const std::int64_t size = std::min(most, rows - begin);
      const variable_list appended = weights.append(size, checkpointing);  // of gates, active; of inner, children
      const Tensor mixed_sums = empty(blocks_of(size), 6 * d), inner_sums = empty(blocks_of(size), h);
      Chunks(size, BLOCK).each([&](std::int64_t, std::int64_t first, std::int64_t last) {
        at::AutoDispatchBelowADInplaceOrView below;
        const auto of_all = [&](const Tensor& all) { return slice_rows(all, begin + first, begin + last); };
        const auto sums = [&](const Tensor& all) { return slice_rows(all, first / BLOCK, blocks_of(last)); };
        const Tensor of_mix = slice_rows(appended[0], first, last), act = slice_rows(appended[1], first, last);
        Tensor of_in = slice_rows(appended[2], first, last), of_children_rows = of_all(of_children);
        mix_backward(of_all(gradient), of_all(saved[3]), of_all(left), of_all(right), of_all(saved[4]), cell, of_mix,
                     slice_rows(appended[3], first, last), of_children_rows, sums(mixed_sums));
        multiply(of_mix, by_gates, of_in);
        activate_backward(of_in, of_all(saved[2]), cell.expand_bias, cell.kind,
                          saved[5].defined() ? of_all(saved[5]) : Tensor(), act, sums(inner_sums));
        multiply(of_in, by_expand, of_children_rows, true);
      });
      weights.accumulate_sums(mixed_sums, 0);
      weights.accumulate_sums(inner_sums, 6 * d);
    }
    if (checkpointing) weights.flush(false);
    std::vector<std::int64_t> shape = gradients[0].sizes().vec();
    shape.back() = 2 * d;
    const Tensor of_both = of_children.view(shape);
    variable_list of_inputs(2 + 6 + 4);
    of_inputs[0] = of_both.narrow(-1, 0, d);
    of_inputs[1] = of_both.narrow(-1, d, d);
    return of_inputs;
  }
};

// Returns the parents of children, [..., d] each.
inline Tensor gated(const Tensor& left, const Tensor& right, const Tensor& expand, const Tensor& expand_bias,
                    const Tensor& gates, const Tensor& gates_bias, const Tensor& scale, const Tensor& shift,
                    double eps, std::int64_t kind, const std::optional<Tensor>& dropout) {
  TORCH_CHECK(!dropout || dropout->numel() == left.numel() / left.size(-1) * expand.size(0), "dropout mask of shape ",
              dropout->sizes(), " does not fit ", expand.size(0), " hidden units per node");
  TORCH_CHECK(left.sizes() == right.sizes() && 2 * left.size(-1) == expand.size(1), "children of shapes ",
              left.sizes(), " and ", right.sizes(), " do not fit a cell of width ", expand.size(1) / 2);
  const variable_list weights{expand, expand_bias, gates, gates_bias, scale, shift};
  if (recording({left, right}, weights)) {
    const auto shared = shared_weights<CellGradients>(weights);
    return Gated::apply(left, right, at::TensorList(shared->shared), shared, eps, kind, dropout);
  }
  const Tensor mask = dropout ? as_matrix(*dropout) : Tensor();
  const CellWeights cell(weights, eps, kind);
  return compose(as_matrix(left), as_matrix(right), cell, mask, false).parent.view(left.sizes());
}

}  // namespace crvnn
