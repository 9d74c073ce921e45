// The hook that docs/writing_a_comm_hook.md shows sums, over three ranks.
#include "lockstep/distributed/comm/thread_group.h"
#include "lockstep/distributed/reduce/comm_hook_runner.h"
#include "lockstep/distributed/reduce/hooks/registry.h"
#include "lockstep/examples/own_comm_hook/byte_hook.h"
#include "lockstep/tests/distributed/reduce/hook_bucket.h"
#include "lockstep/tests/support/gradcheck.h"
#include "lockstep/tests/support/random_delay.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cmath>

namespace lockstep {
namespace {

using namespace testing;

Tensor gradient(int rank) {
  return ops::cast(random_tensor({5, 7}, static_cast<uint64_t>(rank)), DType::kF32);
}

const auto random_delay = testing::delays_up_to(std::chrono::microseconds(300));

TEST_CASE("byte hook: the sum, the same bits everywhere, a quarter of f32's bytes") {
  CommHookRegistry hooks = builtin_comm_hooks();
  hooks["byte"] = [](CommHookOptions&) { return std::make_shared<ByteHook>(); };
  spawn(3,
        [&](ProcessGroup& group) {
          const BucketReduction reduction = run_comm_hook(parse_comm_hook("byte", hooks), group);
          const GradBucket bucket = make_bucket({{"weight", gradient(group.rank())}});
          const WorkPtr work = reduction(bucket);
          work->wait();
          check(work->bytes_sent() == bucket.flat.numel() + 4, "bytes ", work->bytes_sent());
          require_same_bits(bucket.flat, group);
          for (int64_t i = 0; i < 35; ++i) {
            double sum = 0;
            for (int r = 0; r < 3; ++r) sum += gradient(r).data<float>()[i];
            // Three values in [-1, 1], each off by at most half a step of 1/127.
            const double error = std::abs(bucket.params[0].grad.data<float>()[i] - sum);
            check(error <= 3 * 0.5 / 127 + 1e-6, "element ", i, " is off by ", error);
          }
          for (int64_t i = 35; i < bucket.flat.numel(); ++i) {
            check(bucket.flat.data<float>()[i] == 0, "the padding is not zero");
          }
        },
        {.delay = random_delay});
}

TEST_CASE("byte hook: zeros stay zeros; what is not f32 is refused") {
  spawn(2, [](ProcessGroup& group) {
    ByteHook hook;
    const GradBucket zeros = make_bucket({{"weight", Tensor::zeros({5}, DType::kF32)}});
    hook.reduce(zeros, group);
    check(zeros.flat.to_vector<float>() == std::vector<float>(64), "zeros");
    const GradBucket wide = make_bucket({{"weight", Tensor::zeros({5}, DType::kF64)}});
    CHECK_THROWS_AS(hook.reduce(wide, group), ArgumentError);
  });
}

TEST_CASE("byte hook: a gradient that is not finite on one rank is refused on every rank") {
  std::atomic<int> refused{0};
  spawn(3, [&](ProcessGroup& group) {
    const BucketReduction reduction = run_comm_hook(std::make_shared<ByteHook>(), group);
    Tensor values = Tensor::zeros({4}, DType::kF32);
    if (group.rank() == 1) values.mutable_data<float>()[2] = NAN;
    const GradBucket bucket = make_bucket({{"weight", values}});
    try {
      reduction(bucket)->wait();
    } catch (const Error&) {
      ++refused;
    }
  });
  CHECK(refused == 3);
}

}  // namespace
}  // namespace lockstep
