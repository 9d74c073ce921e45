#include "lockstep/train/image_batch.h"

#include "lockstep/autograd/ops/loss.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tensor/ops/metrics.h"

namespace lockstep {

Batch to_device(const Batch& batch, Device device) {
  return {ops::to_device(batch.inputs, device), ops::to_device(batch.targets, device)};
}

BatchResult image_result(const Variable& logits, const Tensor& targets,
                         const CrossEntropyOptions& options) {
  return {.loss = cross_entropy(logits, targets, options),
          .correct = ops::correct_count(logits.data(), targets),
          .counted = targets.dim(0)};
}

}  // namespace lockstep
