// The thread that runs a communication hook: order, errors, ends.
#include "lockstep/distributed/reduce/comm_hook_runner.h"

#include "lockstep/distributed/comm/single_group.h"
#include "lockstep/distributed/comm/thread_group.h"
#include "lockstep/distributed/reduce/hooks/all_reduce_hook.h"
#include "lockstep/distributed/reduce/hooks/half_hook.h"
#include "lockstep/tests/distributed/reduce/hook_bucket.h"
#include "lockstep/tests/support/random_delay.h"
#include "lockstep/tests/support/sim_stream_group.h"

#include <doctest/doctest.h>

#include <atomic>
#include <thread>

namespace lockstep {
namespace {

using namespace testing;
using std::chrono::microseconds;
using std::chrono::milliseconds;

const auto random_delay = testing::delays_up_to(std::chrono::microseconds(500));

GradBucket bucket_of(float value, int index = 0) {
  GradBucket bucket = make_bucket({{"w", ops::full({3}, value, DType::kF32)}});
  bucket.index = index;
  return bucket;
}

/// Runs `fn` before the plain sum.
class FnHook final : public CommHook {
 public:
  explicit FnHook(std::function<void(const GradBucket&)> fn) : fn_(std::move(fn)) {}
  int64_t reduce(const GradBucket& bucket, ProcessGroup& group) override {
    fn_(bucket);
    group.all_reduce(bucket.flat)->wait();
    return 7 + bucket.index;
  }

 private:
  std::function<void(const GradBucket&)> fn_;
};

template <class E>
std::string message_of(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const E& e) {
    return e.what();
  }
  return "nothing was thrown";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("runner: many buckets in flight, in order, with their times and bytes") {
  spawn(3,
        [](ProcessGroup& group) {
          std::vector<int> order;
          const BucketReduction reduction = run_comm_hook(
              std::make_shared<FnHook>([&](const GradBucket& b) { order.push_back(b.index); }),
              group);
          for (int step = 0; step < 20; ++step) {
            order.clear();
            std::vector<GradBucket> buckets;
            for (int b = 0; b < 5; ++b) {
              buckets.push_back(bucket_of(static_cast<float>((group.rank() + 1) * (b + 1)), b));
            }
            std::vector<WorkPtr> works;
            for (const GradBucket& bucket : buckets) works.push_back(reduction(bucket));
            int64_t finish = 0;
            for (int b = 0; b < 5; ++b) {
              Work& work = *works[static_cast<size_t>(b)];
              work.wait();
              check(work.done(), "a work that was waited for is not done");
              check(work.bytes_sent() == 7 + b, "bytes ", work.bytes_sent());
              check(work.times().start_ns >= finish, "out of order");
              check(work.times().finish_ns >= work.times().start_ns, "times are not set");
              finish = work.times().finish_ns;
              const GradBucket& bucket = buckets[static_cast<size_t>(b)];
              check(bucket.flat.data<float>()[0] == 6 * static_cast<float>(b + 1), "wrong sum");
            }
            check(order == std::vector<int>{0, 1, 2, 3, 4}, "wrong order");
          }
        },
        {.delay = random_delay});
}

TEST_CASE("runner: an exception on one rank ends all ranks; they do not hang") {
  auto groups = make_thread_groups(3, {.delay = random_delay});
  std::vector<std::thread> threads;
  std::vector<std::string> first(3), second(3), later(3);
  for (size_t r = 0; r < 3; ++r) {
    threads.emplace_back([&, r] {
      const BucketReduction reduction =
          run_comm_hook(std::make_shared<FnHook>([r](const GradBucket& bucket) {
                          if (r == 1 && bucket.index == 1) throw IoError("no such thing");
                        }),
                        *groups[r]);
      const GradBucket buckets[] = {bucket_of(1, 0), bucket_of(1, 1), bucket_of(1, 2)};
      const WorkPtr works[] = {reduction(buckets[0]), reduction(buckets[1]), reduction(buckets[2])};
      works[0]->wait();
      const auto wait = [&](int b) { return [&works, b] { works[b]->wait(); }; };
      first[r] = r == 1 ? message_of<IoError>(wait(1)) : message_of<CommError>(wait(1));
      second[r] = message_of<CommError>(wait(2));
      later[r] = message_of<CommError>([&] { reduction(buckets[0])->wait(); });
      CHECK(works[2]->done());
    });
  }
  for (auto& thread : threads) thread.join();
  const std::string reason = "rank 1: the communication hook failed on bucket 1: no such thing";
  for (size_t r = 0; r < 3; ++r) {
    CAPTURE(r);
    CHECK(first[r] == (r == 1 ? "no such thing" : reason));
    CHECK(contains(second[r], reason));
    CHECK(contains(later[r], "it has failed already: "));
    CHECK(contains(later[r], reason));
    CHECK_THROWS_AS(groups[r]->barrier(), CommError);
  }
}

TEST_CASE("runner: what is no std::exception comes out too") {
  const auto group = make_single_group();
  const BucketReduction reduction =
      run_comm_hook(std::make_shared<FnHook>([](const GradBucket&) { throw 42; }), *group);
  const GradBucket bucket = bucket_of(1);
  const WorkPtr work = reduction(bucket);
  CHECK_THROWS_AS(work->wait(), int);
  CHECK_THROWS_AS(work->wait_host(milliseconds(1000)), CommError);  // once only as it is
  CHECK_THROWS_AS(work->wait(), CommError);
  CHECK_THROWS_AS(run_comm_hook(nullptr, *group), ArgumentError);
}

TEST_CASE("runner: destroyed with buckets in flight, the works fail and the group is told") {
  auto groups = make_thread_groups(2);
  const GradBucket buckets[] = {bucket_of(1, 0), bucket_of(1, 1)};
  BucketReduction reduction = run_comm_hook(std::make_shared<AllReduceHook>(), *groups[0]);
  const WorkPtr works[] = {reduction(buckets[0]), reduction(buckets[1])};
  CHECK(contains(message_of<CommError>([&] { works[0]->wait_host(milliseconds(20)); }),
                 "bucket 0 within 20 ms"));
  CHECK_FALSE(works[0]->done());
  reduction = nullptr;
  for (const WorkPtr& work : works) {
    CHECK(contains(message_of<CommError>([&] { work->wait(); }),
                   "rank 0 destroyed its communication hook with buckets in flight"));
  }
  CHECK_THROWS_AS(groups[1]->barrier()->wait(), CommError);
}

TEST_CASE("runner: destroyed after the last wait it leaves the group alone") {
  spawn(3, [](ProcessGroup& group) {
    for (int i = 0; i < 200; ++i) {
      const BucketReduction reduction = run_comm_hook(std::make_shared<AllReduceHook>(), group);
      const GradBucket bucket = bucket_of(1);
      reduction(bucket)->wait();
    }
    group.barrier()->wait();
  });
}

TEST_CASE("runner: an abort of the group ends a hook that waits for a peer") {
  auto groups = make_thread_groups(2);
  const BucketReduction reduction = run_comm_hook(std::make_shared<AllReduceHook>(), *groups[0]);
  const GradBucket bucket = bucket_of(1);
  const WorkPtr work = reduction(bucket);
  groups[1]->abort("the user has had enough");
  CHECK(message_of<CommError>([&] { work->wait(); }) == "the user has had enough");
}

/// Whether every rank reads the right sum after kernels, hook, wait and kernels, all on streams.
bool sums_are_right(const SimDeviceOptions& options, bool half) {
  const SimDevice device(options);
  std::atomic<bool> right{true};
  spawn(3, [&](ProcessGroup& host) {
    SimStreamGroup group(host);
    std::shared_ptr<CommHook> hook = std::make_shared<AllReduceHook>();
    if (half) hook = std::make_shared<HalfHook>(HalfHookOptions{});
    const BucketReduction reduction = run_comm_hook(hook, group);
    for (int step = 0; step < 3; ++step) {
      GradBucket bucket;
      bucket.flat = ops::full({64}, host.rank() + 1, DType::kF32, Device::cuda());
      bucket.params.push_back({"w", bucket.flat});
      const WorkPtr work = reduction(bucket);
      work->wait();
      ops::scale(bucket.flat, 2);
      for (const float x : ops::to_device(bucket.flat, Device::cpu()).to_vector<float>()) {
        if (x != 12) right = false;
      }
      work->wait_host(milliseconds(10'000));
      if (!work->done()) right = false;
    }
    host.barrier()->wait();
  });
  return right;
}

TEST_CASE("runner: on streams the hook waits for the kernels before it, those after it for it") {
  constexpr Delay kNone{};
  constexpr Delay kRandom{microseconds(0), microseconds(300)};
  constexpr Delay kSlow{microseconds(3000), microseconds(3000)};
  for (const bool half : {false, true}) {
    CHECK(sums_are_right({.compute = kRandom, .side = kRandom}, half));
    CHECK(sums_are_right({.compute = kSlow, .side = kNone}, half));
    CHECK(sums_are_right({.compute = kNone, .side = kSlow}, half));
  }
}

}  // namespace
}  // namespace lockstep
