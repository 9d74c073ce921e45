// Evaluation: a model's loss and accuracy over a loader's samples, on all ranks together.
#pragma once

#include "lockstep/autograd/variable.h"
#include "lockstep/data/loader.h"
#include "lockstep/distributed/comm/process_group.h"
#include "lockstep/nn/module.h"
#include "lockstep/train/meter.h"

#include <cstdint>
#include <functional>

namespace lockstep {

/// What is to be known of one batch.
struct BatchResult {
  Variable loss;  // one element: the mean over the samples
  int64_t correct = 0;
  int64_t samples = 0;
};
using BatchFn = std::function<BatchResult(const Batch&)>;

/// Collective. Calls `batch_fn` on every batch of `data`, with the model in evaluation and without
/// recording; the model is in training afterwards. Batches without samples are passed over: a
/// rank's part of a last one that has fewer samples than there are ranks.
Meter::Result evaluate(Module& model, DataLoader& data, const BatchFn& batch_fn,
                       ProcessGroup& group);

}  // namespace lockstep
