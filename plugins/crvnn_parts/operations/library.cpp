// Kernels of the built-in parts as torch operators. Tensors are contiguous, on a CPU, and float32 where they hold values.

#include "gated/gated.h"
#include "intervals/windows.h"
#include "modulated/modulated.h"
#include "transition/transition.h"
#include "window_scores/adjacent_scores.h"
#include "window_scores/interval_scores.h"

TORCH_LIBRARY(crvnn_parts, library) {
  crvnn::define_scope(library);
  library.def("interval_bounds(Tensor exists) -> (Tensor, Tensor)", &crvnn::interval_bounds);
  library.def("neighbour(Tensor values, Tensor exists, Tensor bounds, Tensor fractions, int side) -> Tensor",
              static_cast<at::Tensor (*)(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                         std::int64_t)>(&crvnn::neighbour));
  library.def("window(Tensor values, Tensor exists, Tensor bounds, Tensor fractions, int reach) -> (Tensor, Tensor)",
              &crvnn::window);
  library.def("modulated(Tensor scores, Tensor eligible, Tensor exists, Tensor bounds, Tensor fractions, int form, "
              "float stretch) -> Tensor",
              &crvnn::modulated);
  library.def("transition(Tensor c, Tensor exists, Tensor eligible, Tensor tokens, Tensor interval_exists, Tensor bounds, "
              "Tensor fractions) -> (Tensor, Tensor, Tensor)",
              &crvnn::transition);
  library.def("window_scores(Tensor windows, Tensor left_c, Tensor weight, Tensor bias, Tensor score, Tensor score_bias, "
              "Tensor? composed, Tensor? untouched, int kind) -> Tensor",
              &crvnn::window_scores);
  library.def("interval_scores(Tensor values, Tensor exists, Tensor bounds, Tensor fractions, int reach, Tensor left_c, "
              "Tensor weight, Tensor bias, Tensor score, Tensor score_bias, Tensor? composed, Tensor? untouched, int kind) "
              "-> (Tensor, Tensor)",
              &crvnn::interval_scores);
  library.def("adjacent_scores(Tensor values, Tensor exists, int reach, Tensor left_c, Tensor weight, Tensor bias, "
              "Tensor score, Tensor score_bias, Tensor? composed, Tensor? untouched, int kind) -> Tensor",
              &crvnn::adjacent_scores);
  library.def("gated(Tensor left, Tensor right, Tensor expand, Tensor expand_bias, Tensor gates, Tensor gates_bias, "
              "Tensor scale, Tensor shift, float eps, int kind, Tensor? dropout) -> Tensor",
              &crvnn::gated);
}
