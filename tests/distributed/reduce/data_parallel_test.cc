#include "lockstep/distributed/data_parallel.h"

#include "lockstep/autograd/ops/loss.h"
#include "lockstep/autograd/record.h"
#include "lockstep/distributed/comm/single_group.h"
#include "lockstep/distributed/comm/thread_group.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/tensor/allocator.h"
#include "lockstep/tensor/random.h"
#include "lockstep/tests/distributed/reduce/small_net.h"

#include <doctest/doctest.h>

#include <cstring>
#include <mutex>
#include <thread>

namespace lockstep {
namespace {

using testing::largest_difference;
using testing::small_batch;
using testing::SmallNet;
using testing::train_small_net;

void sleep_up_to(int microseconds, uint32_t dice) {
  std::this_thread::sleep_for(
      std::chrono::microseconds(dice % static_cast<uint32_t>(microseconds)));
}

bool same_bits(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].nbytes() != b[i].nbytes() || std::memcmp(a[i].raw(), b[i].raw(), a[i].nbytes()) != 0)
      return false;
  }
  return true;
}

TEST_CASE("N ranks train what one process trains") {
  // The sums are the same numbers added in another order: f32 rounding through 20 steps, f64
  // rounding.
  for (const auto& [dtype, tolerance] :
       {std::pair{DType::kF32, 1e-5}, std::pair{DType::kF64, 1e-12}}) {
    const auto one = train_small_net({.ranks = 1, .dtype = dtype});
    for (int ranks : {2, 3, 4}) {
      const auto several = train_small_net({.ranks = ranks, .dtype = dtype});
      CAPTURE(ranks);
      CAPTURE(name_of(dtype));
      CHECK(largest_difference(several[0], one[0]) < tolerance);
    }
    // A run that learns nothing would agree as well.
    const auto start = train_small_net({.ranks = 1, .steps = 0, .dtype = dtype});
    CHECK(largest_difference(one[0], start[0]) > 0.01);
  }
}

TEST_CASE("naive, bucketed and overlapped train the same; local does not") {
  for (double cap : {0.0, 0.5 / 1024, 25.0}) {
    const auto run = [&](DdpMode mode) {
      return train_small_net(
          {.ranks = 3, .ddp = {.mode = mode, .bucket_cap_mb = cap, .first_bucket_cap_mb = cap}});
    };
    const auto naive = run(DdpMode::kNaive);
    CHECK(largest_difference(run(DdpMode::kBucketed)[0], naive[0]) < 1e-6);
    CHECK(largest_difference(run(DdpMode::kOverlapped)[0], naive[0]) < 1e-6);
    CHECK(largest_difference(run(DdpMode::kLocal)[0], naive[0]) > 1e-3);
  }
}

TEST_CASE("replicas are bitwise equal after 50 steps") {
  for (int ranks : {2, 3}) {
    const auto replicas = train_small_net({.ranks = ranks, .global_batch = 12, .steps = 50});
    for (const auto& replica : replicas) CHECK(same_bits(replica, replicas[0]));
  }
}

TEST_CASE("accumulating four micro-batches is one large batch") {
  for (int ranks : {1, 3}) {
    const auto whole = train_small_net({.ranks = ranks, .dtype = DType::kF64});
    const auto parts = train_small_net({.ranks = ranks, .micro_batches = 4, .dtype = DType::kF64});
    CHECK(largest_difference(parts[0], whole[0]) < 1e-12);
  }
}

TEST_CASE("1,000 steps with delays everywhere never deadlock and never differ from naive") {
  constexpr int kSteps = 1000;
  const auto naive = train_small_net(
      {.ranks = 3, .global_batch = 6, .steps = kSteps, .ddp = {.mode = DdpMode::kNaive}});
  const auto delayed = train_small_net(
      {.ranks = 3,
       .global_batch = 6,
       .steps = kSteps,
       .ddp = {.bucket_cap_mb = 0, .first_bucket_cap_mb = 0},
       .delay =
           [](int rank, int64_t sequence) {
             sleep_up_to(120, PhiloxRange{3, static_cast<uint64_t>(rank) << 40}.bits(sequence));
           },
       .hook_delay =
           [](int rank) {
             thread_local Generator dice(static_cast<uint64_t>(rank) + 10);
             sleep_up_to(100, dice.take(1).bits(0));
           }});
  CHECK(largest_difference(delayed[0], naive[0]) < 1e-6);
  for (const auto& replica : delayed) CHECK(same_bits(replica, delayed[0]));
}

TEST_CASE("a warm step copies no gradient and asks the system for no memory") {
  const auto group = make_single_group();
  SmallNet net(DType::kF32);
  DataParallel ddp(net, *group);
  Sgd optimizer(net.named_parameters(), {.lr = 0.1, .momentum = 0.9});
  const auto batch = small_batch(0, 8, 0, 8, DType::kF32);
  uint64_t misses = 0;
  for (int step = 0; step < 6; ++step) {
    if (step == 3) misses = cpu_allocator().stats().misses;
    optimizer.zero_grad();
    cross_entropy(net.forward(Variable(batch.inputs)), batch.targets).backward();
    optimizer.step();
  }
  CHECK(cpu_allocator().stats().misses == misses);
  CHECK(gradient_bytes_copied() == 0);
}

TEST_CASE("ranks with different parameters all throw, with the first difference") {
  struct Odd : Module {
    Odd(Shape shape, bool frozen) : weight(Tensor::zeros(shape, DType::kF32), !frozen) {
      register_parameter("weight", weight);
    }
    Variable weight;
  };
  for (bool frozen : {false, true}) {
    std::mutex mutex;
    std::vector<std::string> messages;
    spawn(3, [&](ProcessGroup& group) {
      const bool odd = group.rank() == 2;
      Odd module(odd && !frozen ? Shape{3, 2} : Shape{2, 3}, odd && frozen);
      try {
        DataParallel ddp(module, group);
      } catch (const ArgumentError& error) {
        const std::lock_guard lock(mutex);
        messages.push_back(error.what());
      }
    });
    REQUIRE(messages.size() == 3);
    for (const std::string& message : messages) {
      CHECK(message == messages[0]);
      CHECK(message.find("weight") != std::string::npos);
      CHECK(message.find("rank 2") != std::string::npos);
      CHECK(message.find(frozen ? "frozen" : "[3, 2]") != std::string::npos);
    }
  }
}

TEST_CASE("ranks with different buffers, too, though they have as many bytes") {
  struct Odd : Module {
    explicit Odd(DType dtype) : count(Tensor::zeros({2}, dtype)) {
      register_parameter("weight", weight);
      register_buffer("count", count);
    }
    Variable weight{Tensor::zeros({3}, DType::kF32), true};
    Tensor count;
  };
  spawn(3, [&](ProcessGroup& group) {
    Odd module(group.rank() == 2 ? DType::kI32 : DType::kF32);
    CHECK_THROWS_WITH_AS(DataParallel(module, group),
                         "DataParallel: ranks hold different buffers: buffer 0 is count f32 [2] on "
                         "rank 0 (of 1) and count i32 [2] on rank 2 (of 1)",
                         ArgumentError);
  });
}

TEST_CASE("rank 0's values and buffers reach every rank") {
  struct Counter : Module {
    explicit Counter(float value)
        : weight(Tensor::from<float>({value}, {1}), true),
          count(Tensor::from<int64_t>({int64_t(value)}, {1})) {
      register_parameter("weight", weight);
      register_buffer("count", count);
    }
    Variable weight;
    Tensor count;
  };
  spawn(3, [](ProcessGroup& group) {
    Counter counter(static_cast<float>(7 + group.rank()));
    DataParallel ddp(counter, group);
    if (counter.weight.data().item() != 7) throw Error("parameter");
    if (counter.count.item() != 7) throw Error("buffer");
    counter.count.mutable_data<int64_t>()[0] = 1 + group.rank();
    ddp.broadcast_buffers();
    if (counter.count.item() != 1) throw Error("buffer, asked for");
  });
}

TEST_CASE("a module without trainable parameters is refused") {
  struct Empty : Module {};
  const auto group = make_single_group();
  Empty empty;
  CHECK_THROWS_AS(DataParallel(empty, *group), ArgumentError);
}

}  // namespace
}  // namespace lockstep
