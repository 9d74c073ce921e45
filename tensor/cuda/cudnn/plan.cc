#include "lockstep/tensor/cuda/cudnn/plan.h"

#include "lockstep/base/error.h"
#include "lockstep/tensor/tensor.h"

#include <algorithm>
#include <iterator>
#include <utility>

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
  std::array<cudnnBackendNumericalNote_t, 2 * CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes{};
  // A later cuDNN may have more kinds than the one that this was built with.
  const auto count =
      std::min(static_cast<int64_t>(notes.size()),
               engine.get(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                          static_cast<int64_t>(notes.size()), notes.data()));
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

/// The engine and the values of its knobs.
std::string name_of(const Descriptor& config) {
  Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t native = engine.native();
  config.get(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &native);
  int64_t index = 0;
  engine.get(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &index);
  std::string name = str(index);
  std::deque<Descriptor> knobs;
  std::vector<cudnnBackendDescriptor_t> natives;
  for (int i = 0; i < CUDNN_KNOB_TYPE_COUNTS; ++i) {
    natives.push_back(knobs.emplace_back(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR).native());
  }
  const int64_t count = config.get(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                   static_cast<int64_t>(natives.size()), natives.data());
  // A later cuDNN may have more kinds than the one that this was built with.
  for (size_t i = 0; i < std::min(static_cast<size_t>(count), knobs.size()); ++i) {
    cudnnBackendKnobType_t type{};
    int64_t value = 0;
    knobs[i].get(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &type);
    knobs[i].get(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1, &value);
    name += str(" ", static_cast<int>(type), "=", value);
  }
  return name;
}

/// The operations as one descriptor, which `graph` keeps.
const Descriptor& finalized(Graph& graph, const PlanTarget& target) {
  Descriptor& whole = graph.keep(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  const auto& operations = graph.operations();
  whole.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, operations.size(),
            operations.data());
  if (target.handle != nullptr) {
    whole.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &target.handle);
  }
  return whole.finalize();
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

Plan::Plan(std::shared_ptr<const Origin> origin, Descriptor plan, std::string name)
    : origin_(std::move(origin)), plan_(std::move(plan)), name_(std::move(name)) {
  plan_.get(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &workspace_bytes_);
}

std::vector<std::unique_ptr<Plan>> Plan::suggest(Graph operations, const PlanTarget& target,
                                                 bool exact_f32, const PlanWanted& wanted,
                                                 std::string* why) {
  const auto origin = std::make_shared<Origin>();
  origin->graph = std::move(operations);
  const Descriptor& graph = finalized(origin->graph, target);
  std::vector<std::unique_ptr<Plan>> plans;
  std::string reason = "cuDNN suggests no engine";
  for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    if (!plans.empty()) break;
    std::deque<Descriptor> configs = suggestions(graph, target, mode);
    for (const Descriptor& config : configs) {
      if (plans.size() == wanted.most) break;
      if (!acceptable(config, exact_f32)) continue;
      std::string name = name_of(config);
      if (!wanted.name.empty() && name != wanted.name) continue;
      const auto same = [&](const std::unique_ptr<Plan>& plan) { return plan->name() == name; };
      if (std::any_of(plans.begin(), plans.end(), same)) continue;
      Descriptor candidate(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
      candidate.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
      set_target(candidate, target, CUDNN_ATTR_EXECUTION_PLAN_HANDLE,
                 CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP);
      if (!candidate.try_finalize()) {
        char text[512] = "";
        cudnn().last_error(text, sizeof text);
        reason = str("cuDNN's engine cannot be built: ", text);
        continue;
      }
      plans.emplace_back(new Plan(origin, std::move(candidate), std::move(name)));
    }
    std::move(configs.begin(), configs.end(), std::back_inserter(origin->configs));
  }
  if (why != nullptr && plans.empty()) *why = reason;
  return plans;
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
  check_cudnn(cudnn().execute(handle, plan_.native(), pack.native()), "cudnnBackendExecute");
}

}  // namespace lockstep::cuda
