// What benchmarks train.
#pragma once

#include "lockstep/optim/optimizer.h"
#include "lockstep/train/model_task.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace lockstep::bench {

/// A model on made-up data: the same for all contenders of one benchmark.
struct Workload {
  ModelTask task{.model = "resnet18",
                 .images = {.image_size = 32},
                 .texts = {.length = 128, .words = 30522, .dropout = 0.1}};  // as bert-base's
  int64_t batch = 64;  // images or sequences in a step, of each rank
};

/// What rank `rank` trains on.
Batch make_batch(const Workload& workload, int rank);

/// Its usual one: AdamW for a BERT, SGD with momentum for a ResNet.
std::unique_ptr<Optimizer> make_optimizer(const Workload& workload,
                                          std::vector<NamedParameter> parameters);

}  // namespace lockstep::bench
