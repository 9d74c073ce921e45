#include "lockstep/distributed/comm/paired_group.h"

#include "lockstep/distributed/comm/failure_source.h"
#include "lockstep/distributed/comm/op_log.h"

#include <utility>

namespace lockstep {
namespace {

class PairedGroup final : public ProcessGroup, public comm::OpLogSource {
 public:
  PairedGroup(std::unique_ptr<ProcessGroup> host, std::unique_ptr<ProcessGroup> device)
      : host_(std::move(host)), device_(std::move(device)) {
    check(host_->rank() == device_->rank() && host_->size() == device_->size(),
          "make_paired_group: rank ", host_->rank(), " of ", host_->size(), " and rank ",
          device_->rank(), " of ", device_->size());
    if (auto* source = dynamic_cast<comm::FailureSource*>(device_.get())) {
      source->on_failure([this](const std::string& why) { host_->abort(why); });
    }
  }

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  const char* backend() const override { return device_->backend(); }

  WorkPtr all_reduce(Tensor tensor, ReduceOp op) override {
    return of(tensor).all_reduce(tensor, op);
  }
  WorkPtr broadcast(Tensor tensor, int root) override { return of(tensor).broadcast(tensor, root); }
  WorkPtr all_gather(Tensor out, Tensor in) override { return of(out).all_gather(out, in); }
  WorkPtr reduce_scatter(Tensor out, Tensor in, ReduceOp op) override {
    return of(out).reduce_scatter(out, in, op);
  }
  WorkPtr all_to_all(Tensor out, Tensor in) override { return of(out).all_to_all(out, in); }
  WorkPtr send(Tensor tensor, int to) override { return of(tensor).send(tensor, to); }
  WorkPtr recv(Tensor tensor, int from) override { return of(tensor).recv(tensor, from); }
  WorkPtr barrier() override { return device_->barrier(); }

  std::unique_ptr<ProcessGroup> split(int color, int key) override {
    auto host = host_->split(color, key);
    auto device = device_->split(color, key);
    return host ? make_paired_group(std::move(host), std::move(device)) : nullptr;
  }

  void abort(std::string reason) override {
    device_->abort(reason);
    host_->abort(std::move(reason));
  }

  void collect_logs(comm::LogCollection& into) const override {
    for (const ProcessGroup* group : {device_.get(), host_.get()}) {
      if (const auto* source = dynamic_cast<const comm::OpLogSource*>(group)) {
        source->collect_logs(into);
      }
    }
  }

 private:
  /// An undefined tensor is refused by either.
  ProcessGroup& of(const Tensor& tensor) {
    return tensor.defined() && !tensor.device().is_cpu() ? *device_ : *host_;
  }

  // The device group tells the host group of its failure, so it goes first.
  const std::unique_ptr<ProcessGroup> host_;
  const std::unique_ptr<ProcessGroup> device_;
};

}  // namespace

std::unique_ptr<ProcessGroup> make_paired_group(std::unique_ptr<ProcessGroup> host,
                                                std::unique_ptr<ProcessGroup> device) {
  check(host != nullptr && device != nullptr, "make_paired_group: there is no group");
  return std::make_unique<PairedGroup>(std::move(host), std::move(device));
}

}  // namespace lockstep
