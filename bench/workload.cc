#include "lockstep/bench/workload.h"

#include "lockstep/autograd/ops/loss.h"

#include <memory>

namespace lockstep::bench {

LossModel make_loss_model(const Workload& workload) {
  return loss_model(std::shared_ptr<ResNet>(make_model(workload.task)),
                    [](ResNet& net, const Batch& batch) {
                      return cross_entropy(net.forward(Variable(batch.inputs)), batch.targets);
                    });
}

Batch make_batch(const Workload& workload, int rank) {
  return synthetic_batch(workload.task, workload.batch, static_cast<uint64_t>(rank) + 1);
}

}  // namespace lockstep::bench
