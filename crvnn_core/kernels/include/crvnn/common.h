// Helpers that every kernel uses: loops over threads, scratch buffers, what belongs to one forward pass, and access to saved
// tensors in a backward pass. Tensors are float32, contiguous and row-major unless a comment says
// otherwise; [B, n, d] is batch, positions, width.
#pragma once

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/SavedTensorHooks.h>
#include <c10/core/CPUAllocator.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>
#include <torch/library.h>

#ifdef __SSE__
#include <xmmintrin.h>
#endif
#ifdef __linux__
#include <sys/mman.h>
#endif

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace crvnn {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Elements below which a loop is not split between threads: the grain size of at::parallel_for.
constexpr std::int64_t GRAIN = 16384;

// Rows in a block. Column sums are taken block by block, so their rounding never depends on the number of threads.
constexpr std::int64_t BLOCK = 16;

// The floating-point mode of the current thread (on x86 the MXCSR register): whether denormals are flushed to zero, as
// set by torch.set_flush_denormal.
struct FloatingPointMode {
#ifdef __SSE__
  unsigned flags = _mm_getcsr();
  void apply() const { _mm_setcsr(flags); }
#else
  void apply() const {}
#endif
};

// Calls work(first, last) for consecutive ranges of 0 ... count, on several threads if each gets at least grain items.
// Worker threads take over the floating-point mode of the calling thread.
template <class Work>
void in_threads(std::int64_t count, std::int64_t grain, const Work& work) {
  const FloatingPointMode caller;
  at::parallel_for(0, count, grain, [&](std::int64_t first, std::int64_t last) {
    const FloatingPointMode own;
    caller.apply();
    work(first, last);
    own.apply();
  });
}

// The same for rows of width elements each.
template <class Work>
void over_rows(std::int64_t rows, std::int64_t width, const Work& work) {
  in_threads(rows, std::max<std::int64_t>(1, GRAIN / std::max<std::int64_t>(1, width)), work);
}

inline std::int64_t blocks_of(std::int64_t rows) { return (rows + BLOCK - 1) / BLOCK; }

// Splits rows into chunks that one thread processes through several operations, so that intermediate results stay in its
// cache. A single-threaded GEMM of one chunk has the same throughput as a multi-threaded GEMM of all rows.
struct Chunks {
  // The most rows in a chunk; and the number of rows below which one multi-threaded GEMM is faster.
  static constexpr std::int64_t MOST = 112, FEW = 20;  // 112 is a multiple of BLOCK and of the rows of a tile (gemm.h)
  std::int64_t rows, size, threads = 1;

  // The chunk size is rounded up to a multiple of `multiple`.
  explicit Chunks(std::int64_t rows_, std::int64_t multiple = 1) : rows(rows_), size(std::max<std::int64_t>(rows_, 1)) {
    if (rows < FEW || at::in_parallel_region()) return;
    threads = at::get_num_threads();
    const std::int64_t each = threads * MOST, count = threads * ((rows + each - 1) / each);
    size = ((rows + count - 1) / count + multiple - 1) / multiple * multiple;
  }

  // Calls work(thread, first row, last row) for every chunk.
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

// Returns rows first ... last of a tensor, as a view.
inline Tensor slice_rows(const Tensor& all, std::int64_t first, std::int64_t last) {
  return first == 0 && last == all.size(0) ? all : all.narrow(0, first, last - first);
}

// Returns whether two tensors are views of the same memory with the same shape and strides.
inline bool same_memory(const Tensor& one, const Tensor& two) {
  return one.const_data_ptr() == two.const_data_ptr() && one.sizes().equals(two.sizes()) &&
         one.strides().equals(two.strides());
}

// Buffers that a pass is done with, kept for the next one: memory that is new from the system costs a page fault for every
// 4 KiB, which is a tenth of a training step on short sequences. Each thread keeps 16 MiB at most.
class SpareBuffers {
 public:
  // Returns uninitialized memory of a shape: a spare buffer of that size, or a new one.
  static Tensor take(at::IntArrayRef shape, const at::TensorOptions& options) {
    std::vector<Tensor>& spare = of_thread();
    const auto found = std::find_if(spare.begin(), spare.end(), [&](const Tensor& buffer) {
      return buffer.numel() == c10::multiply_integers(shape) && buffer.dtype() == options.dtype();
    });
    if (found == spare.end()) return at::empty(shape, options);
    const Tensor buffer = std::move(*found);
    spare.erase(found);
    return buffer.view(shape);
  }

  // Keeps a buffer, if it is contiguous and nothing else holds its memory; the oldest ones make room.
  static void give(Tensor&& buffer) {
    const Tensor given = std::move(buffer);
    if (!given.defined() || !given.is_contiguous() || given.nbytes() > MOST) return;
    if (given.use_count() > 1 || given.storage().use_count() > 1) return;
    std::vector<Tensor>& spare = of_thread();
    spare.push_back(given);
    std::size_t bytes = 0;
    for (const Tensor& kept : spare) bytes += kept.nbytes();
    while (bytes > MOST) {
      bytes -= spare.front().nbytes();
      spare.erase(spare.begin());
    }
  }

 private:
  static constexpr std::size_t MOST = 16 << 20;
  static std::vector<Tensor>& of_thread() {
    thread_local std::vector<Tensor> spare;
    return spare;
  }
};

// What the running forward pass of a thread has made of its weights: copies as factors of products (gemm.h), and the nodes
// that its steps share (weights.h). The host calls enter() and leave() around a pass. All of it is made by the pass and gone
// with it; what the steps have recorded then belongs to their graph alone, so no pass ever sees what another has made.
struct ForwardPass {
  // A copy of the first columns of a weight. Holding the weight keeps its memory from being used for another one, and its
  // version counts changes in place: a weight of the same memory and version is the one that was copied.
  struct Copy {
    Tensor weight, values;
    std::int64_t columns;
    std::uint32_t version;
  };

  std::int64_t depth = 0;  // passes within passes are one
  std::vector<Copy> copies;
  std::vector<c10::intrusive_ptr<torch::CustomClassHolder>> layers;

  static ForwardPass& of_thread() {
    thread_local ForwardPass pass;
    return pass;
  }
  static bool is_running() { return of_thread().depth > 0; }
};

// Returns how often a tensor has been changed in place; an inference tensor does not count.
inline std::uint32_t version_of(const Tensor& tensor) { return tensor.is_inference() ? 0 : tensor._version(); }

inline void enter() { ++ForwardPass::of_thread().depth; }

inline void leave() {
  ForwardPass& pass = ForwardPass::of_thread();
  if (pass.depth == 0 || --pass.depth > 0) return;
  for (ForwardPass::Copy& copy : pass.copies) SpareBuffers::give(std::move(copy.values));
  pass.copies.clear();
  pass.layers.clear();
}

// Defines the operators enter and leave; every library calls this.
inline void define_scope(torch::Library& library) {
  library.def("enter() -> ()", &enter);
  library.def("leave() -> ()", &leave);
}

// Returns whether activation checkpointing is on (checkpoint = true): it installs hooks for saved tensors.
inline bool is_checkpointing() { return at::SavedTensorDefaultHooks::get_hooks().has_value(); }

// Returns an uninitialized buffer. With return_to_system, a large one is mapped from the operating system and unmapped
// when freed: under activation checkpointing the C allocator would keep growing, since freed buffers leave holes that are
// too small for the next ones.
inline Tensor scratch(at::IntArrayRef shape, const at::TensorOptions& options, bool return_to_system) {
#ifdef __linux__
  const std::size_t bytes = sizeof(float) * c10::multiply_integers(shape);
  if (return_to_system && bytes >= 512 * 1024) {
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory != MAP_FAILED) {
      c10::profiledCPUMemoryReporter().New(memory, bytes);
      const auto unmap = [bytes](void* mapped) {
        c10::profiledCPUMemoryReporter().Delete(mapped);
        munmap(mapped, bytes);
      };
      return at::from_blob(memory, shape, unmap, options);
    }
  }
#endif
  return at::empty(shape, options);
}

// Returns values [..., d] as a contiguous matrix [m, d].
inline Tensor as_matrix(const Tensor& values) { return values.contiguous().view({-1, values.size(-1)}); }

inline const float* data(const Tensor& tensor) { return tensor.const_data_ptr<float>(); }
inline float* mutable_data(const Tensor& tensor) { return tensor.mutable_data_ptr<float>(); }

// Returns whether autograd records operations on these inputs: gradients are enabled, and an input requires one.
inline bool recording(at::ArrayRef<Tensor> inputs) {
  if (!at::GradMode::is_enabled()) return false;
  for (const Tensor& input : inputs) {
    if (input.defined() && input.requires_grad()) return true;
  }
  return false;
}

// Returns the tensors that the forward pass saved; call it first in a backward pass, before autograd is switched off:
// under activation checkpointing this recomputes the step. Raises for second derivatives and for batched gradients, which
// kernels do not support.
inline variable_list saved_tensors(AutogradContext* context, const variable_list& gradients) {
  TORCH_CHECK(!at::GradMode::is_enabled(),
              "crvnn's native kernels have no second derivatives (create_graph); torch.func.grad computes them with torch");
  for (const Tensor& gradient : gradients) {
    TORCH_CHECK(!gradient.defined() || gradient.has_storage(),
                "crvnn's native kernels do not take batched gradients; torch.func.jacrev computes them with torch");
  }
  return context->get_saved_variables();
}

}  // namespace crvnn
