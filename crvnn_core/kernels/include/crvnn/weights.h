// Gradients of weights that every step of a recursion uses.
//
// torch makes a gradient for each use and adds them up: passes over all weights in every step, and products of few rows.
// Here the steps of one backward pass lay their rows side by side, and there is a product when enough have come together.
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

namespace crvnn {

// Rows from which on a product is as quick as it gets.
constexpr std::int64_t ENOUGH = 256;

// What the steps of one backward pass have gathered for some matrices of weights [outputs, inputs] and for vectors.
class Gathered {
 public:
  using Shapes = std::vector<std::pair<std::int64_t, std::int64_t>>;

  Gathered(Shapes shapes, std::int64_t vectors, const at::TensorOptions& options)
      : shapes_(std::move(shapes)), sums_(vectors, 0.0), options_(options), totals_(shapes_.size()) {}

  // Unless the gradients are wanted, there is room but they are not made.
  void want(bool wanted) { wanted_ = wanted; }

  // Rows to be written now: for each matrix the gradients of its outputs, and its inputs.
  variable_list room(std::int64_t rows, bool frugal) {
    if (used_ + rows > space_) settle();
    if (rows > space_) {
      space_ = wanted_ ? std::max(rows, ENOUGH) : rows;
      rows_.clear();
      for (const auto& [outputs, inputs] : shapes_) {
        rows_.push_back(room_for({space_, outputs}, options_, frugal));
        rows_.push_back(room_for({space_, inputs}, options_, frugal));
      }
    }
    variable_list found;
    for (const Tensor& all : rows_) found.push_back(all.narrow(0, used_, rows));
    used_ += rows;
    return found;
  }

  // Rows that lie elsewhere.
  void add(std::size_t matrix, const Tensor& of_outputs, const Tensor& inputs) {
    if (!wanted_) return;
    Tensor& total = totals_[matrix];
    if (total.defined()) {
      total.addmm_(of_outputs.t(), inputs);
    } else {
      total = at::mm(of_outputs.t(), inputs);
    }
  }

  // Sums over blocks of rows [blocks, m], for the vectors from a place on.
  void add_sums(const Tensor& blocks, std::int64_t at) {
    const std::int64_t count = blocks.size(0), m = blocks.size(1);
    const float* from = data(blocks);
    for (std::int64_t block = 0; block < count; ++block) {
      for (std::int64_t j = 0; j < m; ++j) sums_[at + j] += from[m * block + j];
    }
  }

  // Makes the products of all that lies here, and gives back the room if it is not to be kept.
  void settle(bool keep = true) {
    for (std::size_t i = 0; used_ && i < shapes_.size(); ++i) {
      add(i, rows_[2 * i].narrow(0, 0, used_), rows_[2 * i + 1].narrow(0, 0, used_));
    }
    used_ = 0;
    if (!keep) {
      rows_.clear();
      space_ = 0;
    }
  }

  // The gradient of a matrix, and those of vectors; when all is settled.
  Tensor matrix(std::size_t i) const {
    return totals_[i].defined() ? totals_[i] : at::zeros({shapes_[i].first, shapes_[i].second}, options_);
  }
  Tensor vector(std::int64_t at, std::int64_t size) const {
    const Tensor found = at::empty({size}, options_);
    std::copy_n(sums_.begin() + at, size, mutable_data(found));
    return found;
  }

 private:
  Shapes shapes_;
  std::vector<double> sums_;
  at::TensorOptions options_;
  bool wanted_ = true;
  variable_list totals_, rows_;
  std::int64_t space_ = 0, used_ = 0;
};

// Makes gradients of weights from what all steps have gathered; one for each kind of layer.
struct Gathering : torch::CustomClassHolder {
  virtual Gathered begin() const = 0;
  virtual variable_list finish(const Gathered& gathered) const = 0;

  // Of the backward pass that is going on.
  Gathered& now() {
    const std::lock_guard<std::mutex> guard(mutex_);
    auto& found = passes_[torch::autograd::get_current_graph_task_id()];
    if (!found) found = std::make_unique<Gathered>(begin());
    return *found;
  }

  // The gradients, at the end of that pass; none if no step took part.
  variable_list end(std::size_t weights) {
    std::unique_ptr<Gathered> all;
    {
      const std::lock_guard<std::mutex> guard(mutex_);
      const auto found = passes_.find(torch::autograd::get_current_graph_task_id());
      if (found == passes_.end()) return variable_list(weights);
      all = std::move(found->second);
      passes_.erase(found);
    }
    all->settle(false);
    return finish(*all);
  }

 private:
  std::mutex mutex_;
  std::unordered_map<int, std::unique_ptr<Gathered>> passes_;
};

template <class Kind>
c10::intrusive_ptr<Kind> held(AutogradContext* context, const std::string& name) {
  return c10::static_intrusive_pointer_cast<Kind>(context->saved_data.at(name).toCapsule());
}

// Stands between weights and all the steps of a graph that use them. The steps give it no gradients, but gather what it
// makes them from when the last of them is done.
struct Share : torch::autograd::Function<Share> {
  static variable_list forward(AutogradContext* context, at::TensorList weights,
                               const c10::intrusive_ptr<Gathering>& gathering) {
    context->saved_data["gathering"] = c10::IValue::make_capsule(gathering);
    context->set_materialize_grads(false);
    variable_list found;
    for (const Tensor& weight : weights) found.push_back(weight.tensor_data());
    return found;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    at::AutoDispatchBelowADInplaceOrView below;
    variable_list found = held<Gathering>(context, "gathering")->end(gradients.size());
    found.emplace_back();
    return found;
  }
};

// The weights of a layer as its steps are to use them. Every step of a graph keeps this, and nobody else does.
struct Weights : torch::CustomClassHolder {
  Weights(const variable_list& given, c10::intrusive_ptr<Gathering> gathering_)
      : shared(Share::apply(at::TensorList(given), gathering_)),
        gathering(std::move(gathering_)),
        nodes_(nodes_of(given)) {}

  variable_list shared;
  c10::intrusive_ptr<Gathering> gathering;

  // When the last step is gone, though the list of those that live still knows of this.
  void release_resources() override {
    shared.clear();
    gathering.reset();
  }

  bool are(const variable_list& given) const {
    return std::equal(given.begin(), given.end(), shared.begin(), shared.end(), same_memory) &&
           nodes_of(given) == nodes_;
  }

 private:
  // Where gradients of the weights go.
  static std::vector<const void*> nodes_of(const variable_list& given) {
    std::vector<const void*> found;
    for (const Tensor& weight : given) found.push_back(torch::autograd::impl::gradient_edge(weight).function.get());
    return found;
  }

  std::vector<const void*> nodes_;  // that live as long as this does
};

// Whether torch records what is done with inputs and weights.
inline bool recording(variable_list inputs, const variable_list& weights) {
  inputs.insert(inputs.end(), weights.begin(), weights.end());
  return recording(inputs);
}

// The same for all steps of a graph.
template <class Kind>
c10::intrusive_ptr<Weights> weights_for(const variable_list& given) {
  static std::mutex mutex;
  static std::vector<c10::weak_intrusive_ptr<Weights>> living;
  const std::lock_guard<std::mutex> guard(mutex);
  std::erase_if(living, [](const auto& other) { return other.expired(); });
  for (const auto& other : living) {
    if (auto found = other.lock(); found && found->are(given)) return found;
  }
  auto made = c10::make_intrusive<Weights>(given, c10::make_intrusive<Kind>(given));
  living.emplace_back(made);
  return made;
}

// What a step gathers in: for the weights that it has kept, or just for itself where none wants a gradient now.
class Place {
 public:
  // The weights stand behind so many other inputs.
  Place(AutogradContext* context, std::size_t others) : weights_(held<Weights>(context, "weights")) {
    for (std::size_t i = 0; i < weights(); ++i) {
      if (context->needs_input_grad(others + i)) return;
    }
    own_ = std::make_unique<Gathered>(weights_->gathering->begin());
    own_->want(false);
  }
  Gathered& operator*() const { return own_ ? *own_ : weights_->gathering->now(); }
  std::size_t weights() const { return weights_->shared.size(); }

 private:
  c10::intrusive_ptr<Weights> weights_;
  std::unique_ptr<Gathered> own_;
};

}  // namespace crvnn
