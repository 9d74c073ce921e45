#include "lockstep/bench/workload.h"

#include "lockstep/optim/adam.h"
#include "lockstep/optim/sgd.h"

#include <utility>

namespace lockstep::bench {

Batch make_batch(const Workload& workload, int rank) {
  return synthetic_batch(workload.task, workload.batch, static_cast<uint64_t>(rank) + 1);
}

std::unique_ptr<Optimizer> make_optimizer(const Workload& workload,
                                          std::vector<NamedParameter> parameters) {
  if (workload.task.is_text()) {
    return std::make_unique<AdamW>(std::move(parameters), AdamWOptions{.lr = 1e-4});
  }
  return std::make_unique<Sgd>(std::move(parameters), SgdOptions{.lr = 0.01, .momentum = 0.9});
}

}  // namespace lockstep::bench
