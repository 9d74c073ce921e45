#include "lockstep/autograd/ops/loss.h"
#include "lockstep/autograd/record.h"
#include "lockstep/distributed/comm/single_group.h"
#include "lockstep/distributed/data_parallel.h"
#include "lockstep/models/resnet.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/tensor/allocator.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>

namespace lockstep {
namespace {

// Convolution, normalisation, pooling, residual sums and the classifier, with basic and bottleneck
// blocks.
TEST_CASE("a warm step of a residual network copies no gradient and asks for no memory") {
  for (const char* name : {"resnet8", "resnet18", "resnet50"}) {
    CAPTURE(name);
    const auto group = make_single_group();
    Generator rng(1);
    const auto model = make_resnet(name, {.classes = 10}, rng);
    DataParallel ddp(*model, *group);
    Sgd optimizer(model->named_parameters(), {.lr = 0.01, .momentum = 0.9, .weight_decay = 1e-4});
    const Variable images(testing::random_tensor({2, 32, 32, 3}, 1, -1, 1, DType::kF32));
    const Tensor labels = Tensor::from<int64_t>({3, 7}, {2});
    const uint64_t copied = gradient_bytes_copied();
    uint64_t misses = 0;
    for (int step = 0; step < 5; ++step) {
      if (step == 2) misses = cpu_allocator().stats().misses;
      optimizer.zero_grad();
      cross_entropy(model->forward(images), labels).backward();
      optimizer.step();
    }
    CHECK(cpu_allocator().stats().misses == misses);
    CHECK(gradient_bytes_copied() == copied);
    // Every parameter lies beside the next in memory, so one kernel call updates all of them.
    CHECK(optimizer.passes_of_last_step() == 1);
  }
}

}  // namespace
}  // namespace lockstep
