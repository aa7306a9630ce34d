// The engine's kernels as torch operators. Tensors are contiguous, on a CPU, and float32 where they hold values.

#include "blend/blend.h"
#include "compaction/compaction.h"
#include "joins/joins.h"
#include "rows/rows.h"

TORCH_LIBRARY(crvnn_engine, library) {
  crvnn::define_scope(library);
  library.def("blend(Tensor nodes, Tensor parents, Tensor left_c, Tensor? rows) -> Tensor", &crvnn::blend);
  library.def("join(Tensor c, Tensor before, Tensor eligible, Tensor tokens, Tensor present, Tensor closing) "
              "-> (Tensor, Tensor, Tensor, Tensor, Tensor)",
              &crvnn::join);
  library.def("take_children(Tensor nodes, Tensor rows) -> (Tensor, Tensor, Tensor)", &crvnn::take_children);
  library.def("put_parents(Tensor nodes, Tensor parents, Tensor rows) -> Tensor", &crvnn::put_parents);
  library.def("rows_at(Tensor one, Tensor two, Tensor rows) -> (Tensor, Tensor)", &crvnn::rows_at);
  library.def("compact(Tensor nodes, Tensor exists, Tensor left_c, Tensor kept, Tensor tokens, Tensor eligible, "
              "Tensor place, int[] sequences, int size) "
              "-> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
              &crvnn::compact);
  library.def("survey(Tensor more, Tensor exists, Tensor present, Tensor eligible) -> (Tensor, Tensor)", &crvnn::survey);
  library.def("changed_rows(Tensor left_c, Tensor exists, float tolerance) -> Tensor", &crvnn::changed_rows);
}
