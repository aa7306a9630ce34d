// What all kernels use.
#pragma once

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/SavedTensorHooks.h>
#include <c10/core/CPUAllocator.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#ifdef __SSE__
#include <xmmintrin.h>
#endif
#ifdef __linux__
#include <sys/mman.h>
#endif

#include <algorithm>
#include <cstdint>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace crvnn {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Elements that are worth a thread of their own.
constexpr std::int64_t GRAIN = 16384;

// Rows in a block. Sums over rows are made block by block, so that they never depend on the number of threads.
constexpr std::int64_t BLOCK = 16;

// How this thread computes: whether numbers that have all but vanished are flushed to zero (torch.set_flush_denormal).
struct Manner {
#ifdef __SSE__
  unsigned found = _mm_getcsr();
  void take() const { _mm_setcsr(found); }
#else
  void take() const {}
#endif
};

// Calls work(first, last) for parts of a range, in several threads if there are so many numbers in it; all of them
// compute as this one does.
template <class Work>
void in_threads(std::int64_t count, std::int64_t grain, const Work& work) {
  const Manner mine;
  at::parallel_for(0, count, grain, [&](std::int64_t first, std::int64_t last) {
    const Manner before;
    mine.take();
    work(first, last);
    before.take();
  });
}

// Calls work(first, last) for portions of so many rows, in several threads if there are enough numbers in them.
template <class Work>
void over_rows(std::int64_t rows, std::int64_t width, const Work& work) {
  in_threads(rows, std::max<std::int64_t>(1, GRAIN / std::max<std::int64_t>(1, width)), work);
}

inline std::int64_t blocks_of(std::int64_t rows) { return (rows + BLOCK - 1) / BLOCK; }

// Rows for each thread, in chunks: what is made of a chunk is still in the thread's cache when the next thing is made of
// that. A product of so many rows, by one thread, is as quick as one of all rows by all threads.
struct Chunks {
  // With fewer, a product is better left to all threads.
  static constexpr std::int64_t MOST = 128, FEW = 20;
  std::int64_t rows, size, threads = 1;

  // Of a size that is a multiple of something.
  explicit Chunks(std::int64_t rows_, std::int64_t multiple = 1) : rows(rows_), size(std::max<std::int64_t>(rows_, 1)) {
    if (rows < FEW || at::in_parallel_region()) return;
    threads = at::get_num_threads();
    const std::int64_t each = threads * MOST, count = threads * ((rows + each - 1) / each);
    size = ((rows + count - 1) / count + multiple - 1) / multiple * multiple;
  }

  // Calls work(thread, first, last) for all chunks.
  template <class Work>
  void each(const Work& work) const {
    if (rows <= size) return work(0, 0, rows);
    const std::int64_t count = (rows + size - 1) / size;
    in_threads(count, (count + threads - 1) / threads, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        work(at::get_thread_num(), i * size, std::min(rows, (i + 1) * size));
      }
    });
  }
};

// Rows of a matrix.
inline Tensor part(const Tensor& all, std::int64_t first, std::int64_t last) {
  return first == 0 && last == all.size(0) ? all : all.narrow(0, first, last - first);
}

// Whether two tensors are the same numbers in memory, read the same way.
inline bool same_memory(const Tensor& one, const Tensor& two) {
  return one.const_data_ptr() == two.const_data_ptr() && one.sizes().equals(two.sizes()) &&
         one.strides().equals(two.strides());
}

// Within a recursion weights stay as they are, so what is made of them can be kept from step to step.
struct Scope {
  std::int64_t depth = 0;
  std::vector<std::pair<Tensor, Tensor>> transposed;

  static Scope& now() {
    thread_local Scope scope;
    return scope;
  }
};

inline void enter() { ++Scope::now().depth; }

inline void leave() {
  Scope& scope = Scope::now();
  if (scope.depth > 0 && --scope.depth == 0) scope.transposed.clear();
}

// The operators that the host calls around a forward pass; every library defines them.
inline void define_scope(torch::Library& library) {
  library.def("enter() -> ()", &enter);
  library.def("leave() -> ()", &leave);
}

// Products with weights [outputs, inputs] are quicker when they lie in memory the other way round.
inline Tensor transposed(const Tensor& weight) {
  Scope& scope = Scope::now();
  if (!scope.depth) return weight.t();
  for (const auto& [known, made] : scope.transposed) {
    if (same_memory(known, weight)) return made;
  }
  scope.transposed.emplace_back(weight.tensor_data(), weight.t().contiguous());
  return scope.transposed.back().second;
}

// Whether steps are worked out again in the backward pass (checkpoint = true), as memory is to be saved.
inline bool saving_memory() { return at::SavedTensorDefaultHooks::get_hooks().has_value(); }

// Room for what is needed for a moment. Where memory is to be saved, much of it comes from the system and goes back there:
// the holes that it leaves in the C library's memory are soon too small for it, and the process grows.
inline Tensor room_for(at::IntArrayRef shape, const at::TensorOptions& options, bool frugal) {
#ifdef __linux__
  const std::size_t bytes = sizeof(float) * c10::multiply_integers(shape);
  if (frugal && bytes >= 512 * 1024) {
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory != MAP_FAILED) {
      c10::profiledCPUMemoryReporter().New(memory, bytes);
      const auto give_back = [bytes](void* given) {
        c10::profiledCPUMemoryReporter().Delete(given);
        munmap(given, bytes);
      };
      return at::from_blob(memory, shape, give_back, options);
    }
  }
#endif
  return at::empty(shape, options);
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
inline variable_list saved_by(AutogradContext* context, const variable_list& gradients) {
  TORCH_CHECK(!at::GradMode::is_enabled(),
              "crvnn's native kernels have no second derivatives; set CRVNN_NATIVE=0 to compute them with torch");
  for (const Tensor& gradient : gradients) {
    TORCH_CHECK(!gradient.defined() || gradient.has_storage(),
                "crvnn's native kernels take one gradient at a time; set CRVNN_NATIVE=0 for batches of them");
  }
  return context->get_saved_variables();
}

}  // namespace crvnn
