// An application that outlives the loss of a peer: it catches the error, forms a new group and
// trains on.
#include "lockstep/autograd/ops/loss.h"
#include "lockstep/base/error.h"
#include "lockstep/distributed/comm/make_process_group.h"
#include "lockstep/distributed/comm/tcp_store.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/tests/distributed/reduce/small_net.h"

#include <doctest/doctest.h>

#include <thread>

namespace lockstep {
namespace {

using testing::SmallNet;

constexpr int kBatch = 96;
constexpr int kSteps = 10;
constexpr int kLost = 5;  // one rank is gone from this step on

uint16_t free_port() { return TcpStore({.serve = true, .token = "t"}).port(); }

struct Replica {
  SmallNet net{DType::kF64};
  Sgd optimizer{net.named_parameters(), {.lr = 0.05, .momentum = 0.9}};

  void step(int number, const ProcessGroup& group) {
    const int begin = kBatch * group.rank() / group.size();
    const int end = kBatch * (group.rank() + 1) / group.size();
    const auto batch = testing::small_batch(number, kBatch, begin, end, DType::kF64);
    optimizer.zero_grad();
    cross_entropy(net.forward(Variable(batch.inputs)), batch.targets).backward();
    optimizer.step();
  }
};

struct Outcome {
  int caught_in = -1;
  std::vector<Tensor> parameters;
};

/// Rank `rank` of `size`, of which `lost` will be lost; what a program would do, but that a thread
/// stands for its process.
Outcome train(int rank, int size, int lost, uint16_t first_port, uint16_t second_port) {
  Replica replica;
  Outcome outcome;
  RankInfo info{
      .rank = rank, .world_size = size, .master_addr = "127.0.0.1", .master_port = first_port};
  for (int step = 0; step < kSteps;) {
    const auto group = make_process_group(info, "token", {.timeout = std::chrono::seconds(20)});
    DataParallel ddp(replica.net, *group);
    try {
      for (; step < kSteps; ++step) {
        if (step == kLost && rank == lost) return outcome;
        replica.step(step, *group);
      }
    } catch (const CommError&) {
      if (outcome.caught_in >= 0) throw;
      outcome.caught_in = step;
      info.world_size -= 1;
      if (rank > lost) info.rank -= 1;
      info.master_port = second_port;
    }
  }
  for (const Variable& p : replica.net.parameters()) outcome.parameters.push_back(p.data());
  return outcome;
}

std::vector<Outcome> train_all(int size, int lost) {
  const uint16_t first_port = free_port(), second_port = free_port();
  std::vector<Outcome> outcomes(static_cast<size_t>(size));
  std::vector<std::string> errors(static_cast<size_t>(size));
  std::vector<std::thread> threads;
  for (int r = 0; r < size; ++r) {
    threads.emplace_back([&, r] {
      try {
        outcomes[static_cast<size_t>(r)] = train(r, size, lost, first_port, second_port);
      } catch (const std::exception& e) {
        errors[static_cast<size_t>(r)] = e.what();
      }
    });
  }
  for (std::thread& t : threads) t.join();
  for (const std::string& e : errors) CHECK(e == "");
  return outcomes;
}

TEST_CASE("survivors of a lost peer form a new group and end where one process would") {
  std::vector<Tensor> alone;
  {
    Replica replica;
    const auto group = make_process_group(RankInfo{}, "");
    CHECK(std::string(group->backend()) == "single");
    for (int step = 0; step < kSteps; ++step) replica.step(step, *group);
    for (const Variable& p : replica.net.parameters()) alone.push_back(p.data());
  }
  // The loss of rank 0 takes the store along.
  for (const auto& ranks : {std::pair{2, 1}, {4, 3}, {2, 0}, {3, 0}}) {
    const int size = ranks.first, lost = ranks.second;
    CAPTURE(size);
    CAPTURE(lost);
    const auto outcomes = train_all(size, lost);
    for (int r = 0; r < size; ++r) {
      if (r == lost) continue;
      const Outcome& o = outcomes[static_cast<size_t>(r)];
      CHECK(o.caught_in == kLost);
      REQUIRE(o.parameters.size() == alone.size());
      // f64 sums of 96 samples in another order.
      CHECK(testing::largest_difference(o.parameters, alone) < 1e-12);
    }
  }
}

TEST_CASE("make_process_group: facts that cannot be are refused") {
  const auto message = [](const RankInfo& info, const ProcessGroupOptions& options) {
    try {
      make_process_group(info, "token", options);
    } catch (const ArgumentError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  const auto contains = [](const std::string& text, const char* part) {
    return text.find(part) != text.npos;
  };
  CHECK(contains(message({.rank = 2, .world_size = 2}, {}), "got rank 2 of 2"));
  CHECK(contains(message({.rank = -1, .world_size = 2}, {}), "got rank -1 of 2"));
  CHECK(contains(message({.world_size = 2}, {.backend = "single"}), "world_size is 2"));
  CHECK(contains(message({.world_size = 2}, {.backend = "mpi"}), "got 'mpi'"));
  CHECK(contains(message({.world_size = 2, .master_addr = "127.0.0.1"}, {}), "and 0"));
}

}  // namespace
}  // namespace lockstep
