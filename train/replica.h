// Replica: one rank's model with its optimizer, trained step by step by whoever has the batches:
// the bare loop of data-parallel training, without files, epochs and evaluation.
#pragma once

#include "lockstep/data/loader.h"
#include "lockstep/distributed/data_parallel.h"
#include "lockstep/distributed/faults/faulty_rank.h"
#include "lockstep/optim/optimizer.h"
#include "lockstep/tensor/device_timeline.h"

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

namespace lockstep {

/// A model, and how its loss is computed.
struct LossModel {
  std::shared_ptr<Module> module;
  /// One element: the mean over the samples of the batch.
  std::function<Variable(const Batch&)> loss;
};

/// LossModel of a module, and a function (Net&, const Batch&) -> Variable.
template <class Net, class Loss>
LossModel loss_model(std::shared_ptr<Net> net, Loss loss) {
  Net& module = *net;
  return {std::move(net),
          [&module, loss = std::move(loss)](const Batch& batch) { return loss(module, batch); }};
}

using OptimizerMaker = std::function<std::unique_ptr<Optimizer>(std::vector<NamedParameter>)>;
/// The batch of micro-batch `micro` of the step.
using MicroBatches = std::function<Batch(int64_t micro)>;

struct ReplicaOptions {
  DdpOptions ddp = {};  // its timeline, where there is one, gets the spans of the steps
  int64_t micro_batches = 1;
  double clip_grad_norm = std::numeric_limits<double>::infinity();
  OptimizerMaker optimizer;  // required
  std::vector<Fault> faults = {};
  bool sync_batch_norm = false;
  Device device = Device::cpu();  // where the model goes, and the batches
};

class Replica {
 public:
  /// Collective over `group`, which must outlive this.
  Replica(LossModel model, ProcessGroup& group, const ReplicaOptions& options);

  /// One optimizer step. Collective unless the mode is local.
  void step(const MicroBatches& batches);
  void zero_grad() { optimizer_->zero_grad(); }
  /// Forward and backward of one micro-batch; `last` of its step: gradients are averaged.
  void backward(const Batch& batch, bool last);
  /// The rest of a step: clipping and the optimizer.
  void update();

  Module& module() { return *model_.module; }
  DataParallel& ddp() { return *ddp_; }
  const std::vector<NamedParameter>& parameters() const { return ddp_->parameters(); }
  /// Whose batches this rank reads: its own, but for a fault.
  int data_rank() const { return faults_.data_rank(); }

 private:
  LossModel model_;
  const Device device_;
  DeviceTimeline spans_;
  const int64_t micro_batches_;
  const double clip_grad_norm_;
  FaultyRank faults_;
  std::unique_ptr<DataParallel> ddp_;
  std::unique_ptr<NoSync> no_sync_;  // a fault
  std::unique_ptr<Optimizer> optimizer_;
};

}  // namespace lockstep
