#include "lockstep/nn/module.h"

#include "lockstep/tensor/ops/copy.h"

#include <algorithm>

namespace lockstep {

/// A parameter or a buffer under one of its names.
struct Module::Slot {
  std::string name;
  Variable parameter{};      // defined: a parameter
  Tensor* buffer = nullptr;  // else
  bool first = true;         // false: another name of one that came before

  const Tensor& tensor() const { return parameter.defined() ? parameter.data() : *buffer; }
  Tensor& mutable_tensor() { return parameter.defined() ? parameter.mutable_data() : *buffer; }
  bool same(const Slot& other) const {
    return parameter.defined() ? parameter.is(other.parameter) : buffer == other.buffer;
  }
};

namespace {

/// "3 missing (a, b, c)"; at most the first five are named.
std::string listing(const char* kind, const std::vector<std::string>& names) {
  constexpr size_t kShown = 5;
  std::string text = str(names.size(), " ", kind, " (");
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i)
    text += (i > 0 ? ", " : "") + names[i];
  return text + (names.size() > kShown ? ", ...)" : ")");
}

}  // namespace

void Module::check_name(const std::string& name) const {
  const auto taken = [&](const auto& list) {
    return std::any_of(list.begin(), list.end(),
                       [&](const auto& entry) { return entry.first == name; });
  };
  check(!name.empty() && name.find('.') == std::string::npos,
        "Module: a name must not be empty or contain a dot, got \"", name, "\"");
  check(!taken(parameters_) && !taken(buffers_) && !taken(parts_), "Module: the name \"", name,
        "\" is registered twice");
}

void Module::register_parameter(std::string name, const Variable& parameter) {
  check_name(name);
  check(parameter.defined() && parameter.is_leaf(), "register_parameter: ", name,
        ": wanted a leaf variable");
  parameters_.emplace_back(std::move(name), parameter);
}

void Module::register_buffer(std::string name, Tensor& buffer) {
  check_name(name);
  check(buffer.defined(), "register_buffer: ", name, ": the tensor is undefined");
  buffers_.emplace_back(std::move(name), &buffer);
}

void Module::register_module(std::string name, Module& part) {
  check_name(name);
  check(&part != this, "register_module: ", name, ": a module cannot be part of itself");
  parts_.emplace_back(std::move(name), &part);
}

void Module::collect(const std::string& prefix, std::vector<Slot>& slots) const {
  const auto add = [&](Slot slot) {
    slot.first =
        std::none_of(slots.begin(), slots.end(), [&](const Slot& s) { return s.same(slot); });
    slots.push_back(std::move(slot));
  };
  for (const auto& [name, parameter] : parameters_)
    add({.name = prefix + name, .parameter = parameter});
  for (const auto& [name, buffer] : buffers_) add({.name = prefix + name, .buffer = buffer});
  for (const auto& [name, part] : parts_) part->collect(prefix + name + ".", slots);
}

std::vector<Module::Slot> Module::slots() const {
  std::vector<Slot> slots;
  collect("", slots);
  return slots;
}

std::vector<NamedParameter> Module::named_parameters() const {
  std::vector<NamedParameter> list;
  for (Slot& slot : slots()) {
    if (slot.first && slot.parameter.defined())
      list.push_back({std::move(slot.name), slot.parameter});
  }
  return list;
}

std::vector<Variable> Module::parameters() const {
  std::vector<Variable> list;
  for (NamedParameter& entry : named_parameters()) list.push_back(std::move(entry.parameter));
  return list;
}

std::vector<NamedBuffer> Module::named_buffers() const {
  std::vector<NamedBuffer> list;
  for (Slot& slot : slots()) {
    if (slot.first && slot.buffer != nullptr) list.push_back({std::move(slot.name), *slot.buffer});
  }
  return list;
}

void Module::collect_modules(std::vector<Module*>& list) {
  if (std::find(list.begin(), list.end(), this) != list.end()) return;
  list.push_back(this);
  for (auto& [name, part] : parts_) part->collect_modules(list);
}

void Module::for_each_module(const std::function<void(Module&)>& fn) {
  std::vector<Module*> list;
  collect_modules(list);
  for (Module* module : list) fn(*module);
}

void Module::train(bool on) {
  training_ = on;
  for (auto& [name, part] : parts_) part->train(on);
}

void Module::zero_grad() {
  for (Variable& parameter : parameters()) parameter.zero_grad();
}

template <class Convert>
void Module::convert_floating(const Convert& convert) {
  for (Slot& slot : slots()) {
    if (!slot.first || !is_floating(slot.tensor().dtype())) continue;
    if (slot.parameter.defined()) slot.parameter.bind_grad(Tensor());
    Tensor& tensor = slot.mutable_tensor();
    tensor = convert(tensor);
  }
}

void Module::to(DType dtype) {
  check(is_computable(dtype), "Module::to: wanted f32, f64 or bf16, got ", name_of(dtype));
  convert_floating([&](const Tensor& tensor) { return ops::cast(tensor, dtype); });
}

void Module::to(Device device) {
  convert_floating([&](const Tensor& tensor) { return ops::to_device(tensor, device); });
}

std::vector<NamedTensor> Module::state_dict() const {
  std::vector<NamedTensor> state;
  for (Slot& slot : slots()) {
    if (slot.first) state.push_back({std::move(slot.name), slot.tensor()});
  }
  return state;
}

void Module::load_state_dict(std::span<const NamedTensor> state, const LoadOptions& options) {
  std::vector<Slot> wanted = slots();
  std::vector<std::string> missing, unexpected, mismatched;
  std::vector<std::pair<Slot*, const Tensor*>> found;
  for (Slot& slot : wanted) {
    const auto at = std::find_if(state.begin(), state.end(),
                                 [&](const NamedTensor& entry) { return entry.name == slot.name; });
    if (at == state.end()) {
      if (slot.first) missing.push_back(slot.name);
      continue;
    }
    const Tensor& mine = slot.tensor();
    const Tensor& theirs = at->tensor;
    if (mine.shape() != theirs.shape()) {
      mismatched.push_back(str(slot.name, ": wanted ", mine.shape(), ", got ", theirs.shape()));
    } else if (mine.dtype() != theirs.dtype() &&
               !(is_floating(mine.dtype()) && is_floating(theirs.dtype()))) {
      mismatched.push_back(
          str(slot.name, ": wanted ", name_of(mine.dtype()), ", got ", name_of(theirs.dtype())));
    } else if (slot.first) {
      found.emplace_back(&slot, &theirs);
    }
  }
  for (const NamedTensor& entry : state) {
    if (std::none_of(wanted.begin(), wanted.end(),
                     [&](const Slot& s) { return s.name == entry.name; })) {
      unexpected.push_back(entry.name);
    }
  }
  std::string problems;
  const auto report = [&](const char* kind, const std::vector<std::string>& names) {
    if (!names.empty()) problems += (problems.empty() ? "" : "; ") + listing(kind, names);
  };
  if (options.strict) {
    report("missing", missing);
    report("unexpected", unexpected);
  }
  report("that do not fit", mismatched);
  check(problems.empty(), "load_state_dict: ", problems);
  for (auto& [slot, theirs] : found) {
    Tensor& mine = slot->mutable_tensor();
    ops::copy(ops::to_device(*theirs, mine.device()), mine);
  }
}

}  // namespace lockstep
