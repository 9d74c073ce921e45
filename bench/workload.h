// What benchmarks train.
#pragma once

#include "lockstep/data/loader.h"
#include "lockstep/train/image_task.h"
#include "lockstep/train/replica.h"

#include <cstdint>

namespace lockstep::bench {

/// A residual network on made-up images: the same for all contenders of one benchmark.
struct Workload {
  ImageTask task{.model = "resnet18", .image_size = 32};
  int64_t batch = 64;  // images in a step, of each rank
};

/// The model with the loss that is trained: cross-entropy.
LossModel make_loss_model(const Workload& workload);
/// What rank `rank` trains on.
Batch make_batch(const Workload& workload, int rank);

}  // namespace lockstep::bench
