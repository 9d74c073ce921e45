#include "lockstep/train/replica.h"

#include "lockstep/autograd/ops/elementwise.h"
#include "lockstep/base/error.h"
#include "lockstep/distributed/sync_batch_norm.h"
#include "lockstep/optim/clip.h"
#include "lockstep/tensor/ops/copy.h"

#include <cmath>
#include <optional>
#include <utility>

namespace lockstep {

Replica::Replica(LossModel model, ProcessGroup& group, const ReplicaOptions& options)
    : model_(std::move(model)),
      device_(options.device),
      spans_(options.ddp.timeline, options.device),
      micro_batches_(options.micro_batches),
      clip_grad_norm_(options.clip_grad_norm),
      faults_(options.faults, group) {
  check(micro_batches_ >= 1, "Replica: wanted at least 1 micro-batch, got ", micro_batches_);
  check(options.optimizer != nullptr, "Replica: there is no optimizer");
  module().to(device_);
  DdpOptions ddp = options.ddp;
  ddp.reduction = faults_.reduction(std::move(ddp.reduction));
  ddp_ = std::make_unique<DataParallel>(faults_.module(module()), group, std::move(ddp));
  no_sync_ = faults_.after_wrapping(*ddp_);
  if (options.sync_batch_norm) use_sync_batch_norm(module(), group);
  optimizer_ = options.optimizer(ddp_->parameters());
}

void Replica::step(const MicroBatches& batches) {
  zero_grad();
  for (int64_t m = 0; m < micro_batches_; ++m) backward(batches(m), m + 1 == micro_batches_);
  update();
}

void Replica::backward(const Batch& batch, bool last) {
  Variable loss;
  {
    const DeviceTimeline::Span span(spans_, Activity::kForward);
    loss = model_.loss(
        {ops::to_device(batch.inputs, device_), ops::to_device(batch.targets, device_)});
    if (micro_batches_ > 1) loss = scale(loss, 1.0 / static_cast<double>(micro_batches_));
  }
  const DeviceTimeline::Span span(spans_, Activity::kBackward);
  if (last) return loss.backward();
  const NoSync accumulate_only = ddp_->no_sync();
  loss.backward();
}

void Replica::update() {
  const DeviceTimeline::Span span(spans_, Activity::kOptimizer);
  if (std::isfinite(clip_grad_norm_)) clip_grads(parameters(), clip_grad_norm_);
  optimizer_->step();
}

}  // namespace lockstep
