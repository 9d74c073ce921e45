// The built-in communication hooks but top-k, against closed forms.
#include "lockstep/distributed/comm/gloo_group.h"
#include "lockstep/distributed/comm/tcp_store.h"
#include "lockstep/distributed/comm/thread_group.h"
#include "lockstep/distributed/reduce/comm_hook_runner.h"
#include "lockstep/distributed/reduce/hooks/registry.h"
#include "lockstep/tensor/allocator.h"
#include "lockstep/tests/distributed/reduce/hook_bucket.h"
#include "lockstep/tests/support/gradcheck.h"
#include "lockstep/tests/support/random_delay.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cmath>
#include <limits>
#include <thread>

namespace lockstep {
namespace {

using namespace testing;

const auto random_delay = testing::delays_up_to(std::chrono::microseconds(300));

/// The gradient of parameter `p` on `rank` in f64; small enough for fp16 to be exact to 11 bits.
Tensor gradient(int rank, int p) {
  return random_tensor(p == 0 ? Shape{5, 7} : Shape{130}, static_cast<uint64_t>(10 * rank + p));
}

GradBucket bucket_on(int rank, DType dtype) {
  return make_bucket(
      {{"w", ops::cast(gradient(rank, 0), dtype)}, {"b", ops::cast(gradient(rank, 1), dtype)}});
}

/// Reduces one bucket by the hook and compares it with the sum over the ranks of the gradients,
/// each rounded to `sent` first. `tolerance` is of one element, relative to the sum of magnitudes.
void check_hook(ProcessGroup& group, const char* name, DType dtype, DType sent, double tolerance,
                int64_t bytes) {
  const BucketReduction reduction = run_comm_hook(parse_comm_hook(name), group);
  const GradBucket bucket = bucket_on(group.rank(), dtype);
  const WorkPtr work = reduction(bucket);
  work->wait();
  check(work->bytes_sent() == bytes, name, ": sent ", work->bytes_sent(), " bytes, wanted ", bytes);
  require_same_bits(bucket.flat, group);
  for (int p = 0; p < 2; ++p) {
    const Tensor got = ops::cast(bucket.params[static_cast<size_t>(p)].grad, DType::kF64);
    for (int64_t i = 0; i < got.numel(); ++i) {
      double sum = 0, magnitude = 0;
      for (int r = 0; r < group.size(); ++r) {
        const Tensor rounded =
            ops::cast(ops::cast(ops::cast(gradient(r, p), dtype), sent), DType::kF64);
        sum += rounded.data<double>()[i];
        magnitude += std::abs(rounded.data<double>()[i]);
      }
      const double error = std::abs(got.data<double>()[i] - sum);
      check(error <= tolerance * magnitude, name, " of ", name_of(dtype), ": element ", i, " of ",
            bucket.params[static_cast<size_t>(p)].name, " is off by ", error);
    }
  }
  // Padding: 35 elements lie at the start of a slice of 64 (f32, f64: 32 and 256 bytes).
  const Tensor flat = ops::cast(bucket.flat, DType::kF64);
  double all = 0, of_params = 0;
  for (int64_t i = 0; i < flat.numel(); ++i) all += std::abs(flat.data<double>()[i]);
  for (const auto& param : bucket.params) {
    const Tensor grad = ops::cast(param.grad, DType::kF64);
    for (int64_t i = 0; i < grad.numel(); ++i) of_params += std::abs(grad.data<double>()[i]);
  }
  check(std::abs(all - of_params) <= 1e-9 * all, name, ": the padding is not zero");
}

void check_all_hooks(ProcessGroup& group) {
  const auto numel = [&](DType dtype) { return bucket_on(0, dtype).flat.numel(); };
  const int64_t n = numel(DType::kF32);
  // The sum is rounded once (threads) or after each addition (Gloo), by half a unit in the last
  // place of at most the sum of magnitudes, and f32 rounds besides.
  const double once = group.size() * 0x1p-24;
  const double half_once = group.size() * 0x1p-8;
  check_hook(group, "allreduce", DType::kF32, DType::kF32, once, 4 * n);
  check_hook(group, "allreduce", DType::kF64, DType::kF64, 1e-15 * group.size(),
             8 * numel(DType::kF64));
  check_hook(group, "bf16", DType::kF32, DType::kBF16, half_once, 2 * n);
  check_hook(group, "bf16", DType::kF64, DType::kBF16, half_once, 2 * numel(DType::kF64));
  check_hook(group, "bf16", DType::kBF16, DType::kBF16, half_once, 2 * numel(DType::kBF16));
  for (const char* fp16 : {"fp16", "fp16:overflow=inf"}) {
    const double fp16_once = group.size() * 0x1p-11;
    check_hook(group, fp16, DType::kF32, DType::kF16, fp16_once, 2 * n);
    check_hook(group, fp16, DType::kF64, DType::kF16, fp16_once, 2 * numel(DType::kF64));
    check_hook(group, fp16, DType::kBF16, DType::kBF16, half_once, 2 * numel(DType::kBF16));
  }
  check_hook(group, "topk:ratio=1", DType::kF32, DType::kF32, once, 8 * (35 + 130));
  check_hook(group, "topk:ratio=1", DType::kF64, DType::kF64, 1e-15 * group.size(),
             12 * (35 + 130));
  check_hook(group, "topk:ratio=1", DType::kBF16, DType::kBF16, half_once, 8 * (35 + 130));
}

TEST_CASE("hooks: sums over 1, 3 and 4 threads with random delays") {
  for (const int n : {1, 3, 4}) {
    CAPTURE(n);
    spawn(n, check_all_hooks, {.delay = random_delay});
  }
}

TEST_CASE("hooks: sums over Gloo") {
  auto server = std::make_shared<TcpStore>(TcpStoreOptions{.serve = true, .token = "t", .rank = 0});
  std::vector<std::string> errors(3);
  std::vector<std::thread> threads;
  for (int r = 0; r < 3; ++r) {
    threads.emplace_back([&, r] {
      try {
        const std::shared_ptr<Store> store =
            r == 0 ? server
                   : std::make_shared<TcpStore>(
                         TcpStoreOptions{.port = server->port(), .token = "t", .rank = r});
        const auto group = make_gloo_group(store, "g", r, 3);
        check_all_hooks(*group);
      } catch (const std::exception& e) {
        errors[static_cast<size_t>(r)] = e.what();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (const std::string& error : errors) CHECK(error == "");
}

TEST_CASE("noop: every rank keeps its share") {
  spawn(3, [](ProcessGroup& group) {
    const BucketReduction reduction = run_comm_hook(parse_comm_hook("noop"), group);
    const GradBucket bucket = bucket_on(group.rank(), DType::kF32);
    const Tensor before = ops::clone(bucket.flat);
    const WorkPtr work = reduction(bucket);
    work->wait();
    check(work->bytes_sent() == 0, "bytes were counted");
    check(std::memcmp(before.raw(), bucket.flat.raw(), before.nbytes()) == 0, "changed");
  });
}

TEST_CASE("fp16: what leaves its range is refused on every rank by name, or is infinite") {
  for (const bool refuse : {true, false}) {
    std::atomic<int> refused{0}, infinite{0};
    spawn(3, [&](ProcessGroup& group) {
      const BucketReduction reduction =
          run_comm_hook(parse_comm_hook(refuse ? "fp16" : "fp16:overflow=inf"), group);
      // Each share is in range; their sum is not.
      GradBucket bucket = make_bucket({{"fine", ops::full({4}, 30'000, DType::kF32)},
                                       {"wide", ops::full({4}, 30'000, DType::kF32)}});
      ops::fill(bucket.params[0].grad, 1);
      bucket.step = 12;
      try {
        reduction(bucket)->wait();
        if (std::isinf(bucket.params[1].grad.data<float>()[3])) ++infinite;
        check(bucket.params[0].grad.data<float>()[3] == 3, "the neighbour");
      } catch (const Error& e) {
        const std::string wanted = "comm hook fp16: the gradient of wide is not finite in step 12";
        if (std::string(e.what()).starts_with(wanted)) ++refused;
      }
    });
    CHECK(refused == (refuse ? 3 : 0));
    CHECK(infinite == (refuse ? 0 : 3));
  }
}

TEST_CASE("hooks: a bucket that is not of floats is refused") {
  for (const char* name : {"bf16", "fp16", "topk"}) {
    CAPTURE(name);
    spawn(1, [&](ProcessGroup& group) {
      const BucketReduction reduction = run_comm_hook(parse_comm_hook(name), group);
      const GradBucket bucket = make_bucket({{"w", ops::full({4}, 1, DType::kI32)}});
      const WorkPtr work = reduction(bucket);
      CHECK_THROWS_WITH_AS(work->wait(), doctest::Contains("got i32"), ArgumentError);
    });
  }
}

TEST_CASE("hooks: a warm step asks for no tensor memory") {
  for (const char* name : {"allreduce", "bf16", "fp16", "topk", "noop"}) {
    CAPTURE(name);
    std::atomic<uint64_t> misses{0};
    spawn(3,
          [&](ProcessGroup& group) {
            const BucketReduction reduction = run_comm_hook(parse_comm_hook(name), group);
            const GradBucket buckets[] = {make_bucket({{"a", ops::full({70'000}, 1, DType::kF32)}}),
                                          make_bucket({{"b", ops::full({9'000}, 1, DType::kF32)},
                                                       {"c", ops::full({300}, 1, DType::kF32)}})};
            const auto step = [&] {
              const WorkPtr works[] = {reduction(buckets[0]), reduction(buckets[1])};
              for (const WorkPtr& work : works) work->wait();
            };
            step();
            group.barrier()->wait();
            const uint64_t before = cpu_allocator().stats().misses;
            group.barrier()->wait();
            for (int i = 0; i < 5; ++i) step();
            group.barrier()->wait();
            misses += cpu_allocator().stats().misses - before;
          },
          {.delay = random_delay});
    CHECK(misses == 0);
  }
}

}  // namespace
}  // namespace lockstep
