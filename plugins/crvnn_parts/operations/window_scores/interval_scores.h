// Scores [B, n] of values [B, n, d] from their windows of soft neighbours (scoring.h). The windows, the largest tensor of a
// step, are recomputed in the backward pass, which is faster than keeping them in memory. With the scores comes
// left(values) [B, n, d], which the cell needs as well.
#pragma once

#include "../intervals/windows.h"
#include "scoring.h"

namespace crvnn {

struct IntervalScores : torch::autograd::Function<IntervalScores> {
  static variable_list forward(AutogradContext* context, const Tensor& values, const Tensor& exists,
                               const Tensor& bounds, const Tensor& fractions, std::int64_t reach, const Tensor& left_c,
                               at::TensorList weights, const c10::intrusive_ptr<SharedWeights>& shared,
                               std::int64_t kind) {
    at::AutoDispatchBelowADInplaceOrView below;
    const auto [windows_, left] = windows(values, exists, bounds, fractions, reach);
    const Scored result = score_windows(windows_, left_c, weights, kind);
    variable_list saved{values, exists, bounds, fractions, left_c, weights[0], weights[2], result.mixed, result.slope};
    saved.insert(saved.end(), weights.begin() + 4, weights.end());  // features, so that autograd detects changes in place
    context->save_for_backward(saved);
    context->saved_data["weights"] = c10::IValue::make_capsule(shared);
    context->saved_data["reach"] = reach;
    context->saved_data["kind"] = kind;
    context->saved_data["checkpointing"] = is_checkpointing();
    context->set_materialize_grads(false);
    return {result.scores, left};
  }

  // Decisions that are saturated pass no gradient on, so sequences whose scores have none are left out; of them only
  // left(values) has one.
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = saved_tensors(context, gradients);
    at::AutoDispatchBelowADInplaceOrView below;
    const StepGradients step(context, 5);
    variable_list of_inputs(4 + 1 + 1 + step.weights() + 2);
    if (gradients[0].defined()) *step;  // weights have a gradient, even if it is 0: optimizers skip those without one
    const std::vector<std::int64_t> learning = sequences_with_gradient(gradients[0]);
    if (learning.size() == saved[0].size(0)) {
      const variable_list of = of_scores(context, saved, gradients[0].contiguous(), gradients[1], step);
      of_inputs[0] = of[0], of_inputs[1] = of[1], of_inputs[5] = of[2];
      return of_inputs;
    }
    if (gradients[1].defined()) {
      std::tie(of_inputs[0], of_inputs[1]) =
          neighbours_backward(gradients[1].contiguous(), saved[0], saved[1], saved[2], saved[3], LEFT);
    } else {
      of_inputs[0] = at::zeros_like(saved[0]), of_inputs[1] = at::zeros_like(saved[1]);
    }
    if (saved[8].defined()) of_inputs[5] = at::zeros_like(saved[4]);  // transition features depend on left(c)
    if (learning.empty()) return of_inputs;
    const Tensor index = at::tensor(learning, at::kLong);
    variable_list some = saved;
    for (std::size_t i : {0, 1, 2, 3, 4}) some[i] = saved[i].index_select(0, index);
    some[7] = saved[7].view({saved[0].size(0), -1, saved[7].size(1)}).index_select(0, index).flatten(0, 1);
    const variable_list of = of_scores(context, some, gradients[0].index_select(0, index), Tensor(), step);
    of_inputs[0].index_add_(0, index, of[0]);
    of_inputs[1].index_add_(0, index, of[1]);
    if (of[2].defined()) of_inputs[5].index_add_(0, index, of[2]);
    return of_inputs;
  }

 private:
  // Returns the gradients of values, existence and left(c) from those of the scores and, if defined, of left(values).
  static variable_list of_scores(AutogradContext* context, const variable_list& saved, const Tensor& gradient,
                                 const Tensor& of_left, const StepGradients& step) {
    const Tensor &values = saved[0], &exists = saved[1], &bounds = saved[2], &fractions = saved[3], &left_c = saved[4];
    const std::int64_t reach = context->saved_data["reach"].toInt();
    const bool checkpointing = context->saved_data["checkpointing"].toBool();
    DeferredGradients& weights = *step;
    const variable_list appended = weights.append(left_c.numel(), checkpointing);
    const Tensor &of_mixed = appended[0], windows_ = appended[1].view({left_c.size(0), left_c.size(1), -1});
    make_windows(values, exists, bounds, fractions, reach, windows_, Tensor());
    const Factor by_mixed = step.factor(0, saved[5].narrow(1, 0, windows_.size(-1)));
    const ScoreGradients of =
        score_windows_backward(gradient, windows_, left_c, by_mixed, saved[6], saved[7], saved[8],
                               context->saved_data["kind"].toInt(), of_mixed, weights, checkpointing);
    const auto [of_values, of_exists] =
        windows_backward(windows_, exists, bounds, fractions, reach, of.windows, of_left);
    if (checkpointing) weights.flush(false);
    return {of_values, of_exists, of.left_c};
  }
};

// The operator of IntervalScores.
inline std::tuple<Tensor, Tensor> interval_scores(const Tensor& values, const Tensor& exists, const Tensor& bounds,
                                                  const Tensor& fractions, std::int64_t reach, const Tensor& left_c,
                                                  const Tensor& weight, const Tensor& bias, const Tensor& score,
                                                  const Tensor& score_bias, const std::optional<Tensor>& composed,
                                                  const std::optional<Tensor>& untouched, std::int64_t kind) {
  const variable_list weights = weight_list(weight, bias, score, score_bias, composed, untouched);
  check_window(values, exists, reach);
  check_shape(left_c, exists);
  check_window_width((2 * reach + 1) * values.size(2), weights);
  if (recording({values, exists, left_c}, weights)) {
    const auto shared = shared_weights<ScorerGradients>(weights);
    const variable_list results = IntervalScores::apply(values, exists, bounds, fractions, reach, left_c,
                                                        at::TensorList(shared->shared), shared, kind);
    return {results[0], results[1]};
  }
  const auto [windows_, left] = windows(values, exists, bounds, fractions, reach);
  return {score_windows(windows_, left_c, weights, kind).scores, left};
}

}  // namespace crvnn
