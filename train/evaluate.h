// Evaluation: a model's losses and accuracies over a source's batches, on all ranks together.
#pragma once

#include "lockstep/distributed/comm/process_group.h"
#include "lockstep/nn/module.h"
#include "lockstep/train/batch_source.h"
#include "lockstep/train/meter.h"

namespace lockstep {

struct Evaluation : Meter::Result {
  Meter::Result second = {};  // of BatchResult::second; no samples: there was none
};

/// Collective. Runs every batch of `data`, with the model in evaluation and without recording; the
/// model is in training afterwards. Batches of which nothing was counted are passed over.
Evaluation evaluate(Module& model, BatchSource& data, ProcessGroup& group);

}  // namespace lockstep
