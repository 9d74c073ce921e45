#include "lockstep/tensor/cuda/cudnn/plan.h"

#include "lockstep/base/error.h"
#include "lockstep/tensor/tensor.h"

#include <algorithm>

namespace lockstep::cuda {
namespace {

void set_target(Descriptor& descriptor, const PlanTarget& target,
                cudnnBackendAttributeName_t handle, cudnnBackendAttributeName_t device) {
  if (target.device != nullptr) {
    descriptor.set(device, *target.device);
  } else {
    descriptor.set(handle, CUDNN_TYPE_HANDLE, 1, &target.handle);
  }
}

/// Whether an engine does what it is asked for, no less, and the same each time.
bool acceptable(const Descriptor& config, bool exact_f32) {
  Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t native = engine.native();
  config.get(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &native);
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes{};
  const int64_t count = engine.get(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                   static_cast<int64_t>(notes.size()), notes.data());
  return std::none_of(notes.begin(), notes.begin() + count, [=](cudnnBackendNumericalNote_t note) {
    switch (note) {
      case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
      case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION:
        return true;
      case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
      case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
      case CUDNN_NUMERICAL_NOTE_FFT:
      case CUDNN_NUMERICAL_NOTE_WINOGRAD:
        return exact_f32;
      default:
        return false;
    }
  });
}

/// cuDNN's suggestions for the graph, best first.
std::deque<Descriptor> suggestions(const Descriptor& graph, const PlanTarget& target,
                                   cudnnBackendHeurMode_t mode) {
  Descriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph)
      .set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  if (target.device != nullptr) heuristic.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *target.device);
  std::deque<Descriptor> configs;
  if (!heuristic.try_finalize()) return configs;
  const int64_t most =
      heuristic.get(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, nullptr);
  if (most == 0) return configs;
  std::vector<cudnnBackendDescriptor_t> native;
  for (int64_t i = 0; i < most; ++i) {
    native.push_back(configs.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).native());
  }
  // It may fill in fewer than it announced.
  const int64_t filled = heuristic.get(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                       most, native.data());
  while (static_cast<int64_t>(configs.size()) > filled) configs.pop_back();
  return configs;
}

}  // namespace

const Descriptor& Graph::tensor(const GraphTensor& t) {
  Descriptor& d = keep(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  d.set(CUDNN_ATTR_TENSOR_DATA_TYPE, t.type)
      .set(CUDNN_ATTR_TENSOR_DIMENSIONS, t.dims)
      .set(CUDNN_ATTR_TENSOR_STRIDES, t.strides)
      .set(CUDNN_ATTR_TENSOR_UNIQUE_ID, t.id)
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, int64_t{16})
      .set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, t.inside)
      .set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, t.by_value);
  return d.finalize();
}

Descriptor& Graph::keep(cudnnBackendDescriptorType_t type) { return kept_.emplace_back(type); }

void Graph::add(const Descriptor& operation) { operations_.push_back(operation.native()); }

Descriptor device_from_json(const std::string& json) {
  Descriptor device(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  device.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, json.size(), json.data())
      .finalize();
  return device;
}

std::unique_ptr<Plan> Plan::make(Graph graph, const PlanTarget& target, bool exact_f32,
                                 std::string* why) {
  std::unique_ptr<Plan> plan(new Plan(std::move(graph)));
  std::string reason;
  if (plan->choose(target, exact_f32, reason)) return plan;
  if (why != nullptr) *why = reason;
  return nullptr;
}

bool Plan::choose(const PlanTarget& target, bool exact_f32, std::string& why) {
  Descriptor& graph = graph_.keep(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  const auto& operations = graph_.operations();
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, operations.size(),
            operations.data());
  if (target.handle != nullptr) {
    graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &target.handle);
  }
  graph.finalize();
  why = "cuDNN suggests no engine";
  for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    configs_ = suggestions(graph, target, mode);
    for (const Descriptor& config : configs_) {
      if (!acceptable(config, exact_f32)) continue;
      Descriptor candidate(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
      candidate.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
      set_target(candidate, target, CUDNN_ATTR_EXECUTION_PLAN_HANDLE,
                 CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP);
      if (!candidate.try_finalize()) {
        char text[512] = "";
        cudnn().last_error(text, sizeof text);
        why = str("cuDNN's engine cannot be built: ", text);
        continue;
      }
      candidate.get(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1,
                    &workspace_bytes_);
      plan_.emplace(std::move(candidate));
      return true;
    }
  }
  return false;
}

void Plan::run(cudnnHandle_t handle, const std::vector<Binding>& bindings) const {
  std::vector<int64_t> ids;
  std::vector<void*> memory;
  for (const Binding& b : bindings) {
    ids.push_back(b.id);
    memory.push_back(b.memory);
  }
  Tensor scratch;
  void* workspace = nullptr;
  if (workspace_bytes_ > 0) {
    scratch = Tensor::empty({workspace_bytes_}, DType::kU8, Device::cuda());
    workspace = scratch.mutable_raw();
  }
  Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids)
      .set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, memory.size(), memory.data())
      .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace)
      .finalize();
  check_cudnn(cudnn().execute(handle, plan_->native(), pack.native()), "cudnnBackendExecute");
}

}  // namespace lockstep::cuda
