// Module: a part of a model, with named parameters, buffers (state without a gradient) and parts of
// its own.
//
//   struct Net : Module {
//     Generator rng{1};
//     Conv2d conv{{.in_channels = 1, .out_channels = 8, .kernel = 3}, rng};
//     Linear fc{{.in_features = 8, .out_features = 10}, rng};
//     Net() { register_module("conv", conv), register_module("fc", fc); }
//     Variable forward(const Variable& x) { return fc(global_avg_pool2d(relu(conv(x)))); }
//   };
//
// Parts are members by value, so a module stays where it was made: it cannot be copied or moved.
// Names are those that torchvision and PyTorch give: "layer1.0.conv1.weight".
#pragma once

#include "lockstep/autograd/named_parameter.h"
#include "lockstep/autograd/variable.h"
#include "lockstep/tensor/named_tensor.h"

#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

struct NamedBuffer {
  std::string name;
  Tensor buffer;
};

struct LoadOptions {
  /// Names that are missing or unexpected are an error; otherwise what is there is loaded. Shapes
  /// must always agree.
  bool strict = true;
};

class Module {
 public:
  Module() = default;
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// In the order of registration: this module's own, then those of its parts. A parameter that has
  /// two names is listed once, under the first.
  std::vector<NamedParameter> named_parameters() const;
  std::vector<Variable> parameters() const;
  /// As named_parameters. The tensors are the buffers themselves, not copies.
  std::vector<NamedBuffer> named_buffers() const;

  /// Calls fn with this module, then with each of its parts and their parts, in the order of
  /// registration; with one that has several names once.
  void for_each_module(const std::function<void(Module&)>& fn);

  /// Sets this module and all its parts to training or evaluation: dropout and batch_norm differ.
  void train(bool on = true);
  void eval() { train(false); }
  bool training() const { return training_; }

  /// Forgets the gradients of all parameters.
  void zero_grad();
  /// Converts floating parameters and buffers in place, so that optimizers and hooks stay attached;
  /// gradients are forgotten. Before any arena, data parallelism or optimizer state is made of the
  /// parameters.
  void to(DType dtype);
  /// Moves parameters and floating buffers to `device`, likewise. Whole numbers, which are counters
  /// that the host keeps, stay where they are.
  void to(Device device);

  /// Parameters and buffers by name, each module's parameters before its buffers. The tensors share
  /// the module's memory.
  std::vector<NamedTensor> state_dict() const;
  /// Copies values in, converting between floating dtypes. Throws ArgumentError, in one line with
  /// the first few of each kind, when names are missing or unexpected or shapes differ; then
  /// nothing was changed.
  void load_state_dict(std::span<const NamedTensor> state, const LoadOptions& options = {});

 protected:
  /// Names have no dots and are unique within the module, else ArgumentError.
  void register_parameter(std::string name, const Variable& parameter);
  /// Refers to `buffer`, a member of this module; the parts likewise.
  void register_buffer(std::string name, Tensor& buffer);
  void register_module(std::string name, Module& part);

 private:
  struct Slot;
  void check_name(const std::string& name) const;
  /// Every parameter and buffer with every name it has, in state-dict order.
  void collect(const std::string& prefix, std::vector<Slot>& slots) const;
  std::vector<Slot> slots() const;
  template <class Convert>
  void convert_floating(const Convert& convert);
  /// This module and all below it that are not in `list` yet.
  void collect_modules(std::vector<Module*>& list);

  std::vector<std::pair<std::string, Variable>> parameters_;
  std::vector<std::pair<std::string, Tensor*>> buffers_;
  std::vector<std::pair<std::string, Module*>> parts_;
  bool training_ = true;
};

/// A module from one Variable to one Variable: what Sequential holds.
class Layer : public Module {
 public:
  virtual Variable forward(const Variable& x) = 0;
  Variable operator()(const Variable& x) { return forward(x); }
};

}  // namespace lockstep
