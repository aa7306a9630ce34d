// What all kernels use.
#pragma once

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

namespace crvnn {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Elements that are worth a thread of their own.
constexpr std::int64_t GRAIN = 16384;

// Rows in a block. Sums over rows are made block by block, so that they never depend on the number of threads.
constexpr std::int64_t BLOCK = 16;

// Calls work(first, last) for portions of so many rows, in several threads if there are enough numbers in them.
template <class Work>
void over_rows(std::int64_t rows, std::int64_t width, const Work& work) {
  at::parallel_for(0, rows, std::max<std::int64_t>(1, GRAIN / std::max<std::int64_t>(1, width)), work);
}

inline std::int64_t blocks_of(std::int64_t rows) { return (rows + BLOCK - 1) / BLOCK; }

// Calls work(block, first, last) for every block of rows.
template <class Work>
void over_blocks(std::int64_t rows, std::int64_t width, const Work& work) {
  over_rows(blocks_of(rows), width * BLOCK, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block) {
      work(block, block * BLOCK, std::min(rows, (block + 1) * BLOCK));
    }
  });
}

// [..., d] as [m, d], in one piece.
inline Tensor in_rows(const Tensor& values) { return values.contiguous().view({-1, values.size(-1)}); }

inline const float* data(const Tensor& tensor) { return tensor.const_data_ptr<float>(); }
inline float* mutable_data(const Tensor& tensor) { return tensor.mutable_data_ptr<float>(); }

inline bool recording(at::ArrayRef<Tensor> inputs) {
  if (!at::GradMode::is_enabled()) return false;
  for (const Tensor& input : inputs) {
    if (input.defined() && input.requires_grad()) return true;
  }
  return false;
}

// What was kept for a backward pass. It may be made again here (checkpoint = true), so torch must still be recording.
// The gradients are final: nobody wrote theirs.
inline variable_list saved_by(AutogradContext* context) {
  TORCH_CHECK(!at::GradMode::is_enabled(),
              "crvnn's native kernels have no second derivatives; set CRVNN_NATIVE=0 to compute them with torch");
  return context->get_saved_variables();
}

}  // namespace crvnn
