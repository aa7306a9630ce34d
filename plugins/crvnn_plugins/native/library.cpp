// Kernels of the built-in parts as torch operators. Tensors are contiguous, on a CPU, and float32 where they hold values.

#include "gated.h"
#include "modulation.h"
#include "scoring.h"
#include "transition.h"
#include "windows.h"

TORCH_LIBRARY(crvnn_parts, library) {
  crvnn::define_scope(library);
  library.def("line(Tensor exists) -> (Tensor, Tensor)", &crvnn::line);
  library.def("neighbour(Tensor values, Tensor exists, Tensor spans, Tensor shares, int side) -> Tensor",
              static_cast<at::Tensor (*)(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                         std::int64_t)>(&crvnn::neighbour));
  library.def("window(Tensor values, Tensor exists, Tensor spans, Tensor shares, int reach) -> (Tensor, Tensor)",
              &crvnn::window);
  library.def("modulated(Tensor scores, Tensor eligible, Tensor exists, Tensor spans, Tensor shares, int form, "
              "float stretch) -> Tensor",
              &crvnn::modulated);
  library.def("transition(Tensor compose, Tensor exists, Tensor eligible, Tensor tokens, Tensor along, Tensor spans, "
              "Tensor shares) -> (Tensor, Tensor, Tensor)",
              &crvnn::advance);
  library.def("window_scores(Tensor windows, Tensor left_c, Tensor weight, Tensor bias, Tensor score, Tensor score_bias, "
              "Tensor? composed, Tensor? untouched, int kind) -> Tensor",
              &crvnn::scored);
  library.def("interval_scores(Tensor values, Tensor exists, Tensor spans, Tensor shares, int reach, Tensor left_c, "
              "Tensor weight, Tensor bias, Tensor score, Tensor score_bias, Tensor? composed, Tensor? untouched, int kind) "
              "-> (Tensor, Tensor)",
              &crvnn::scored_along);
  library.def("gated(Tensor left, Tensor right, Tensor expand, Tensor expand_bias, Tensor gates, Tensor gates_bias, "
              "Tensor scale, Tensor shift, float eps, int kind, Tensor? dropout) -> Tensor",
              &crvnn::gated);
}
