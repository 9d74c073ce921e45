// A graph of operations, and a plan: the engine that runs it.
#pragma once

#include "lockstep/tensor/cuda/cudnn/choose_plan.h"
#include "lockstep/tensor/cuda/cudnn/descriptor.h"

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::cuda {

struct GraphTensor {
  int64_t id = 0;  // what Plan::run binds memory to; unique in the graph
  std::array<int64_t, 4> dims{1, 1, 1, 1};
  std::array<int64_t, 4> strides{1, 1, 1, 1};  // in elements
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  bool inside = false;    // exists only between operations
  bool by_value = false;  // one number, in host memory
};

/// Operations and all that they refer to.
class Graph {
 public:
  /// A tensor in memory that is aligned to 16 bytes, or inside the graph.
  const Descriptor& tensor(const GraphTensor& spec);
  /// A descriptor that the graph keeps; the caller sets it up and finalizes it.
  Descriptor& keep(cudnnBackendDescriptorType_t type);
  void add(const Descriptor& finalized_operation);
  const std::vector<cudnnBackendDescriptor_t>& operations() const { return operations_; }

 private:
  std::deque<Descriptor> kept_;  // references into it stay valid
  std::vector<cudnnBackendDescriptor_t> operations_;
};

/// For what a plan is made: the GPU behind a handle, or, to plan without one, a device whose
/// properties a JSON text gives.
struct PlanTarget {
  cudnnHandle_t handle = nullptr;
  const Descriptor* device = nullptr;
};

/// A device from its properties, as cuDNN writes them.
Descriptor device_from_json(const std::string& json);

/// Memory for a tensor of the graph; a pointer to host memory for one by value.
struct Binding {
  int64_t id;
  void* memory;
};

class Plan {
 public:
  /// Those of cuDNN's suggestions, best first, that can be built, give the same bits each time and
  /// add up in f32; with `exact_f32` none that rounds or transforms f32 operands. No two have one
  /// name. Empty when there is none; `why`, if given, then has the reason.
  static std::vector<std::unique_ptr<Plan>> suggest(Graph graph, const PlanTarget& target,
                                                    bool exact_f32, const PlanWanted& wanted,
                                                    std::string* why = nullptr);

  /// "31 2=13 3=0": the engine, and its knobs with their values. The same plan of the same problem
  /// for another process with the same cuDNN and GPU.
  const std::string& name() const { return name_; }
  int64_t workspace_bytes() const { return workspace_bytes_; }
  /// Enqueues it on the stream of `handle`, the calling thread's. Scratch memory comes from the
  /// tensor allocator.
  void run(cudnnHandle_t handle, const std::vector<Binding>& bindings) const;

 private:
  /// What the suggestions for one problem refer to.
  struct Origin {
    Graph graph;
    std::deque<Descriptor> configs;
  };
  Plan(std::shared_ptr<const Origin> origin, Descriptor plan, std::string name);

  std::shared_ptr<const Origin> origin_;
  Descriptor plan_;
  std::string name_;
  int64_t workspace_bytes_ = 0;
};

}  // namespace lockstep::cuda
