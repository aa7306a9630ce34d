// The kernels, as torch operators. Values are contiguous float32 tensors on a CPU; crvnn_core sees to that.

#include "gated.h"
#include "hard.h"
#include "intervals.h"
#include "nodes.h"
#include "scoring.h"

TORCH_LIBRARY(crvnn, library) {
  library.def("enter() -> ()", &crvnn::enter);
  library.def("leave() -> ()", &crvnn::leave);
  library.def("line(Tensor exists) -> (Tensor, Tensor)", &crvnn::line);
  library.def("neighbour(Tensor values, Tensor exists, Tensor spans, Tensor shares, int side) -> Tensor",
              static_cast<at::Tensor (*)(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                         std::int64_t)>(&crvnn::neighbour));
  library.def("window(Tensor values, Tensor exists, Tensor spans, Tensor shares, int reach) -> (Tensor, Tensor)",
              &crvnn::window);
  library.def("modulated(Tensor scores, Tensor eligible, Tensor exists, Tensor spans, Tensor shares, int form, "
              "float stretch) -> Tensor",
              &crvnn::modulated);
  library.def("advance(Tensor compose, Tensor exists, Tensor eligible, Tensor tokens, Tensor along, Tensor spans, "
              "Tensor shares) -> (Tensor, Tensor, Tensor)",
              &crvnn::advance);
  library.def("scored(Tensor windows, Tensor gained, Tensor weight, Tensor bias, Tensor score, Tensor score_bias, "
              "Tensor? composed, Tensor? untouched, int kind) -> Tensor",
              &crvnn::scored);
  library.def("scored_along(Tensor values, Tensor exists, Tensor spans, Tensor shares, int reach, Tensor gained, "
              "Tensor weight, Tensor bias, Tensor score, Tensor score_bias, Tensor? composed, Tensor? untouched, int kind) "
              "-> (Tensor, Tensor)",
              &crvnn::scored_along);
  library.def("gated(Tensor left, Tensor right, Tensor expand, Tensor expand_bias, Tensor gates, Tensor gates_bias, "
              "Tensor scale, Tensor shift, float eps, int kind, Tensor? dropout) -> Tensor",
              &crvnn::gated);
  library.def("blend(Tensor nodes, Tensor parents, Tensor gained, Tensor? where) -> Tensor", &crvnn::blend);
  library.def("join(Tensor compose, Tensor before, Tensor eligible, Tensor tokens, Tensor present, Tensor? closing) "
              "-> (Tensor, Tensor, Tensor, Tensor, Tensor)",
              &crvnn::join);
  library.def("pick(Tensor one, Tensor two, Tensor where) -> (Tensor, Tensor)", &crvnn::pick);
  library.def("narrow(Tensor nodes, Tensor exists, Tensor gained, Tensor staying, Tensor tokens, Tensor eligible, "
              "Tensor place, int[] chosen, int size) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
              &crvnn::narrow);
  library.def("survey(Tensor willing, Tensor exists, Tensor present, Tensor eligible) -> (Tensor, Tensor)",
              &crvnn::survey);
  library.def("changing(Tensor gained, Tensor exists, float tolerance) -> Tensor", &crvnn::changing);
}
