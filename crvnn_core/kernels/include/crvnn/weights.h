// Deferred gradients of weights that every step of a recursion uses.
//
// Autograd would compute a weight gradient in each step and add them up: many GEMMs of few rows, and one pass over all
// weights per step. Here the backward pass of a step appends its rows (gradients of a layer's outputs [m, outputs], and its
// inputs [m, inputs]) to a buffer, and one GEMM per 256 rows or more accumulates outputs^T inputs. A node of the graph
// between the weights and all steps (ShareWeights) returns the accumulated gradients when the last step is done.
#pragma once

#include <ATen/core/ivalue.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/custom_class.h>

#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include <crvnn/common.h>
#include <crvnn/gemm.h>

namespace crvnn {

// Rows from which on a GEMM reaches its full throughput.
constexpr std::int64_t GEMM_ROWS = 256;

// What one backward pass has accumulated for the weight matrices [outputs, inputs] and the vectors (biases, scales) of
// one layer. The vectors are one array of sums in float64; each has an offset in it.
class DeferredGradients {
 public:
  using Shapes = std::vector<std::pair<std::int64_t, std::int64_t>>;

  DeferredGradients(Shapes shapes, std::int64_t vectors, const at::TensorOptions& options)
      : shapes_(std::move(shapes)), sums_(vectors, 0.0), options_(options), totals_(shapes_.size()) {}

  // Steps still write into the buffer, but their rows are discarded and no GEMM runs.
  void discard_rows() { wanted_ = false; }

  // Returns uninitialized rows of the buffer for a step to write: for each matrix the gradients of its outputs
  // [rows, outputs], then its inputs [rows, inputs].
  variable_list append(std::int64_t rows, bool checkpointing) {
    if (used_ + rows > capacity_) flush();
    if (rows > capacity_) {
      capacity_ = wanted_ ? std::max(rows, GEMM_ROWS) : rows;
      free_buffers();
      mapped_ = checkpointing;
      const auto buffer = [&](std::int64_t width) {
        const std::vector<std::int64_t> shape{capacity_, width};
        return mapped_ ? scratch(shape, options_, true) : SpareBuffers::take(shape, options_);
      };
      for (const auto& [outputs, inputs] : shapes_) {
        buffers_.push_back(buffer(outputs));
        buffers_.push_back(buffer(inputs));
      }
    }
    variable_list views;
    for (const Tensor& buffer : buffers_) views.push_back(buffer.narrow(0, used_, rows));
    used_ += rows;
    return views;
  }

  // Accumulates of_outputs^T inputs for rows that are not in the buffer.
  void accumulate(std::size_t matrix, const Tensor& of_outputs, const Tensor& inputs) {
    if (!wanted_ || !of_outputs.size(0)) return;
    Tensor& total = totals_[matrix];
    const bool add = total.defined();
    if (!add) total = at::empty({of_outputs.size(1), inputs.size(1)}, options_);
    transposed_product(of_outputs, inputs, total, add);
  }

  // Adds partial sums [blocks, m] to the vectors from an offset on.
  void accumulate_sums(const Tensor& partial, std::int64_t offset) {
    const std::int64_t count = partial.size(0), m = partial.size(1);
    const float* from = data(partial);
    for (std::int64_t block = 0; block < count; ++block) {
      for (std::int64_t j = 0; j < m; ++j) sums_[offset + j] += from[m * block + j];
    }
  }

  // Accumulates the rows in the buffer; frees it unless keep_buffers.
  void flush(bool keep_buffers = true) {
    for (std::size_t i = 0; used_ && i < shapes_.size(); ++i) {
      accumulate(i, buffers_[2 * i].narrow(0, 0, used_), buffers_[2 * i + 1].narrow(0, 0, used_));
    }
    used_ = 0;
    if (!keep_buffers) {
      free_buffers();
      capacity_ = 0;
    }
  }

  // Return the gradient of matrix i, and that of the vector at an offset; after a flush.
  Tensor matrix(std::size_t i) const {
    return totals_[i].defined() ? totals_[i] : at::zeros({shapes_[i].first, shapes_[i].second}, options_);
  }
  Tensor vector(std::int64_t offset, std::int64_t size) const {
    const Tensor sums = at::empty({size}, options_);
    std::copy_n(sums_.begin() + offset, size, mutable_data(sums));
    return sums;
  }

 private:
  void free_buffers() {
    for (Tensor& buffer : buffers_) {
      if (!mapped_) SpareBuffers::give(std::move(buffer));
    }
    buffers_.clear();
  }

  Shapes shapes_;
  std::vector<double> sums_;
  at::TensorOptions options_;
  bool wanted_ = true, mapped_ = false;  // mapped: buffers go back to the system (scratch)
  variable_list totals_, buffers_;
  std::int64_t capacity_ = 0, used_ = 0;
};

// The deferred gradients of one layer in one graph, for each backward pass through it that is running. A layer derives
// from this to say which matrices and vectors it has, and how its weights' gradients follow from theirs.
struct WeightGradients : torch::CustomClassHolder {
  virtual DeferredGradients start() const = 0;
  virtual variable_list finish(const DeferredGradients& deferred) const = 0;

  // Returns those of the running backward pass.
  DeferredGradients& of_pass() {
    const std::lock_guard<std::mutex> guard(mutex_);
    auto& deferred = passes_[torch::autograd::get_current_graph_task_id()];
    if (!deferred) deferred = std::make_unique<DeferredGradients>(start());
    return *deferred;
  }

  // Returns the gradients of the weights at the end of the running backward pass; undefined tensors if no step was in it.
  variable_list end_pass(std::size_t weights) {
    std::unique_ptr<DeferredGradients> deferred;
    {
      const std::lock_guard<std::mutex> guard(mutex_);
      const auto entry = passes_.find(torch::autograd::get_current_graph_task_id());
      if (entry == passes_.end()) return variable_list(weights);
      deferred = std::move(entry->second);
      passes_.erase(entry);
    }
    deferred->flush(false);
    return finish(*deferred);
  }

 private:
  std::mutex mutex_;
  std::unordered_map<int, std::unique_ptr<DeferredGradients>> passes_;
};

// Returns the object that a forward pass stored in its context under a name.
template <class Class>
c10::intrusive_ptr<Class> stored(AutogradContext* context, const std::string& name) {
  return c10::static_intrusive_pointer_cast<Class>(context->saved_data.at(name).toCapsule());
}

// The node between weights and all steps of a graph that use them. Steps return no gradient to it; its backward, which
// autograd runs after theirs, returns what they have accumulated.
struct ShareWeights : torch::autograd::Function<ShareWeights> {
  static variable_list forward(AutogradContext* context, at::TensorList weights,
                               const c10::intrusive_ptr<WeightGradients>& gradients) {
    context->saved_data["gradients"] = c10::IValue::make_capsule(gradients);
    context->set_materialize_grads(false);
    variable_list shared;
    for (const Tensor& weight : weights) shared.push_back(weight.tensor_data());
    return shared;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    at::AutoDispatchBelowADInplaceOrView below;
    variable_list of_weights = stored<WeightGradients>(context, "gradients")->end_pass(gradients.size());
    of_weights.emplace_back();
    return of_weights;
  }
};

// The weights of a layer as the recorded steps of one forward pass use them: the outputs of ShareWeights. The pass owns this
// while it runs, and its steps do as long as their graph lives.
struct SharedWeights : torch::CustomClassHolder {
  SharedWeights(const variable_list& weights, c10::intrusive_ptr<WeightGradients> gradients_)
      : shared(ShareWeights::apply(at::TensorList(weights), gradients_)),
        gradients(std::move(gradients_)),
        given_(weights),
        factors_(weights.size()) {
    for (const Tensor& weight : weights) versions_.push_back(version_of(weight));
  }
  ~SharedWeights() override {
    for (auto& [pass, factor] : factors_) {
      if (OWN_GEMM) SpareBuffers::give(std::move(factor.values));  // else it may be the weight itself
    }
  }

  variable_list shared;
  c10::intrusive_ptr<WeightGradients> gradients;

  // Returns the factor of number i for the products of the running backward pass: make() returns its matrix. It is made and
  // packed once in a pass, since weights may have changed before the next one.
  template <class Make>
  Factor factor(std::size_t i, const Make& make) {
    const std::lock_guard<std::mutex> guard(mutex_);
    auto& [pass, factor] = factors_[i];
    if (const int running = torch::autograd::get_current_graph_task_id(); !factor.values.defined() || pass != running) {
      pass = running;
      factor = Factor(make());
    }
    return factor;
  }

  // Returns whether these are the given weights, unchanged since.
  bool same_as(const variable_list& weights) const {
    if (weights.size() != given_.size()) return false;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (!weights[i].is_same(given_[i]) || version_of(weights[i]) != versions_[i]) return false;
    }
    return true;
  }

 private:
  variable_list given_;
  std::vector<std::uint32_t> versions_;
  std::vector<std::pair<int, Factor>> factors_;  // with the backward pass that made each
  std::mutex mutex_;
};

// Returns whether autograd records operations on these inputs and weights.
inline bool recording(variable_list inputs, const variable_list& weights) {
  inputs.insert(inputs.end(), weights.begin(), weights.end());
  return recording(inputs);
}

// Returns the shared weights of the given ones: the same object for all steps of a forward pass; outside a pass, a new one.
template <class LayerGradients>
c10::intrusive_ptr<SharedWeights> shared_weights(const variable_list& weights) {
  auto& layers = ForwardPass::of_thread().layers;
  for (const auto& layer : layers) {
    auto known = c10::static_intrusive_pointer_cast<SharedWeights>(layer);
    if (known->same_as(weights) && dynamic_cast<LayerGradients*>(known->gradients.get())) return known;
  }
  auto created = c10::make_intrusive<SharedWeights>(weights, c10::make_intrusive<LayerGradients>(weights));
  if (ForwardPass::is_running()) layers.push_back(created);
  return created;
}

// The deferred gradients that the backward pass of one step writes to: those of the running pass, or its own, which
// are discarded, if no weight needs a gradient.
class StepGradients {
 public:
  // The weights are the arguments of the autograd function behind so many inputs.
  StepGradients(AutogradContext* context, std::size_t inputs) : weights_(stored<SharedWeights>(context, "weights")) {
    for (std::size_t i = 0; i < weights(); ++i) {
      if (context->needs_input_grad(inputs + i)) return;
    }
    own_ = std::make_unique<DeferredGradients>(weights_->gradients->start());
    own_->discard_rows();
  }
  DeferredGradients& operator*() const { return own_ ? *own_ : weights_->gradients->of_pass(); }
  std::size_t weights() const { return weights_->shared.size(); }
  Factor factor(std::size_t i, const Tensor& weight) const {
    return weights_->factor(i, [&] { return weight; });
  }
  template <class Make>
  Factor factor(std::size_t i, const Make& make) const {
    return weights_->factor(i, make);
  }

 private:
  c10::intrusive_ptr<SharedWeights> weights_;
  std::unique_ptr<DeferredGradients> own_;
};

}  // namespace crvnn
