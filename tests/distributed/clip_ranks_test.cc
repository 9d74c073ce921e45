// Clipping behind data parallelism: every rank must find the same norm, to the bit, or replicas
// part.
#include "lockstep/autograd/ops/loss.h"
#include "lockstep/distributed/comm/thread_group.h"
#include "lockstep/optim/clip.h"
#include "lockstep/tests/distributed/reduce/small_net.h"

#include <doctest/doctest.h>
#include <omp.h>

#include <limits>
#include <vector>

namespace lockstep {
namespace {

using testing::small_batch;
using testing::SmallNet;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double norm_of_step(SmallNet& net, int begin, int end, DType dtype) {
  const auto batch = small_batch(0, 12, begin, end, dtype);
  cross_entropy(net.forward(Variable(batch.inputs)), batch.targets).backward();
  return clip_grad_norm(net.named_parameters(), 1e-3);
}

TEST_CASE("the norm after reduction has the same bits on every rank, under every plan") {
  SmallNet one(DType::kF64);
  const double expected = norm_of_step(one, 0, 12, DType::kF64);
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    for (const double cap : {0.0, 0.001, 25.0}) {
      std::vector<double> norms(3), after(3);
      spawn(3, [&](ProcessGroup& group) {
        const auto me = static_cast<size_t>(group.rank());
        omp_set_num_threads(1 + group.rank());  // machines may differ in cores
        SmallNet net(dtype);
        const DataParallel ddp(net, group, {.bucket_cap_mb = cap, .first_bucket_cap_mb = cap});
        norms[me] = norm_of_step(net, 4 * group.rank(), 4 * group.rank() + 4, dtype);
        after[me] = clip_grad_norm(net.named_parameters(), kInfinity);
      });
      CAPTURE(cap);
      CHECK(norms[0] == doctest::Approx(expected).epsilon(dtype == DType::kF64 ? 1e-13 : 1e-6));
      CHECK(after[0] == doctest::Approx(1e-3).epsilon(1e-3));
      for (size_t r = 1; r < 3; ++r) {
        CHECK(norms[r] == norms[0]);
        CHECK(after[r] == after[0]);
      }
    }
  }
}

}  // namespace
}  // namespace lockstep
