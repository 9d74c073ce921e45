// What a trainer of image classifiers does with a batch.
#pragma once

#include "lockstep/autograd/variable.h"
#include "lockstep/data/loader.h"
#include "lockstep/tensor/ops/loss.h"
#include "lockstep/train/batch_source.h"

namespace lockstep {

/// The batch on `device`; what is there already is not copied.
Batch to_device(const Batch& batch, Device device);

/// Loss and accuracy of `logits` [N, classes] for classes `targets` (i64 [N]).
BatchResult image_result(const Variable& logits, const Tensor& targets,
                         const CrossEntropyOptions& options = {});

}  // namespace lockstep
