#include "lockstep/distributed/faults/faulty_rank.h"

#include "lockstep/distributed/faults/faulty_reduction.h"
#include "lockstep/tensor/ops/copy.h"

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>

namespace lockstep {
namespace {

/// A module and, by their dotted names, its parts.
struct Part : Module {
  void add(const std::string& name, const std::function<void(Part&, std::string)>& place) {
    const size_t dot = name.find('.');
    if (dot == name.npos) return place(*this, name);
    std::unique_ptr<Part>& part = parts[name.substr(0, dot)];
    if (part == nullptr) {
      part = std::make_unique<Part>();
      register_module(name.substr(0, dot), *part);
    }
    part->add(name.substr(dot + 1), place);
  }
  using Module::register_buffer;
  using Module::register_parameter;

  std::map<std::string, std::unique_ptr<Part>> parts;
};

/// The parameters of another module, the last one first, and its buffers.
struct Reversed : Part {
  explicit Reversed(const Module& module) {
    const std::vector<NamedParameter> parameters = module.named_parameters();
    for (auto p = parameters.rbegin(); p != parameters.rend(); ++p) {
      add(p->name, [&](Part& part, const std::string& name) {
        part.register_parameter(name, p->parameter);
      });
    }
    for (const NamedBuffer& named : module.named_buffers()) {
      Tensor& buffer = buffers.emplace_back(named.buffer);
      add(named.name,
          [&](Part& part, const std::string& name) { part.register_buffer(name, buffer); });
    }
  }

  std::deque<Tensor> buffers;  // registered by reference
};

}  // namespace

FaultyRank::FaultyRank(std::vector<Fault> faults, ProcessGroup& group)
    : faults_(std::move(faults)), group_(group) {
  for (const Fault& fault : faults_) check_fault(fault, group.size());
}

Module& FaultyRank::module(Module& module) {
  if (!has(FaultKind::kDifferentOrder)) return module;
  reordered_ = std::make_unique<Reversed>(module);
  return *reordered_;
}

BucketReduction FaultyRank::reduction(BucketReduction inner) const {
  return with_faults(faults_, group_, std::move(inner));
}

std::unique_ptr<NoSync> FaultyRank::after_wrapping(DataParallel& ddp) const {
  if (has(FaultKind::kSeed)) {
    for (const NamedParameter& named : ddp.parameters()) {
      // Weights are drawn evenly around zero: this could be another draw. Biases and scales start
      // alike.
      Tensor values = named.parameter.data();
      if (values.ndim() > 1) ops::scale(values, -1);
    }
  }
  if (!has(FaultKind::kNoSync)) return nullptr;
  return std::unique_ptr<NoSync>(new NoSync(ddp.no_sync()));
}

int FaultyRank::data_rank() const { return has(FaultKind::kSameData) ? 0 : group_.rank(); }

}  // namespace lockstep
