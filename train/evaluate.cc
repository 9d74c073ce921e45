#include "lockstep/train/evaluate.h"

#include <optional>

namespace lockstep {

Meter::Result evaluate(Module& model, DataLoader& data, const BatchFn& batch_fn,
                       ProcessGroup& group) {
  model.eval();
  const NoGrad no_grad;
  Meter meter;
  data.begin_epoch(0);
  while (const std::optional<Batch> batch = data.next()) {
    if (batch->size() == 0) continue;
    const BatchResult result = batch_fn(*batch);
    meter.add(result.loss.data().item(), result.correct, result.samples);
  }
  model.train();
  return meter.reduce(group);
}

}  // namespace lockstep
