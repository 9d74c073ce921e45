#include "lockstep/train/evaluate.h"

#include "lockstep/base/failpoint.h"

namespace lockstep {

Evaluation evaluate(Module& model, BatchSource& data, ProcessGroup& group) {
  model.eval();
  const NoGrad no_grad;
  Meter meter, second;
  data.begin_epoch(0);
  while (data.load()) {
    failpoint("trainer.evaluation");
    const BatchResult result = data.run();
    if (result.counted > 0) {
      meter.add(result.loss.data(), result.correct, result.counted);
    }
    if (result.second.counted > 0) {
      second.add(result.second.loss.data(), result.second.correct, result.second.counted);
    }
  }
  model.train();
  return {meter.reduce(group), second.reduce(group)};
}

}  // namespace lockstep
