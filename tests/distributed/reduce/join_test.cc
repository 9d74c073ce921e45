// Ranks that run out of batches at different times: each policy against one process that computes
// the same means, in f64.
#include "lockstep/distributed/join.h"

#include "lockstep/autograd/ops/elementwise.h"
#include "lockstep/autograd/ops/loss.h"
#include "lockstep/distributed/data_parallel.h"
#include "lockstep/distributed/reduce/comm_hook_runner.h"
#include "lockstep/distributed/reduce/hooks/all_reduce_hook.h"
#include "lockstep/distributed/uneven.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tests/distributed/reduce/small_net.h"
#include "lockstep/tests/distributed/reduce/toy.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

namespace lockstep {
namespace {

using testing::kAveraging;
using testing::largest_difference;
using testing::on_ranks;
using testing::small_batch;
using testing::SmallNet;

/// f64: the same sums, where a share is divided by the ranks and multiplied again.
constexpr double kTolerance = 1e-14;
constexpr int kRows = 4;  // of a micro-batch

/// The loss of micro-batch m of batch k of a rank; no two see the same samples.
Variable loss_of(const SmallNet& net, int rank, int64_t k, int micro_batches, int m) {
  const int number = (static_cast<int>(k) * 8 + rank) * micro_batches + m;
  const auto batch = small_batch(number, kRows, 0, kRows, DType::kF64);
  return scale(cross_entropy(net.forward(Variable(batch.inputs)), batch.targets),
               1.0 / micro_batches);
}

SgdOptions optimizing() { return {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01}; }

std::vector<Tensor> values_of_net(const SmallNet& net) {
  std::vector<Tensor> values;
  for (const auto& [name, parameter] : net.named_parameters())
    values.push_back(ops::clone(parameter.data()));
  return values;
}

/// Batches of each rank in each step that it takes: step k uses batch used[rank][k].
using Plan = std::vector<std::vector<int64_t>>;

/// One process: in each step the mean over the ranks that have one, until none has.
std::vector<Tensor> in_one_process(const Plan& used, int epochs, int micro_batches) {
  SmallNet net(DType::kF64);
  Sgd optimizer(net.named_parameters(), optimizing());
  size_t steps = 0;
  for (const auto& rank : used) steps = std::max(steps, rank.size());
  for (int epoch = 0; epoch < epochs; ++epoch) {
    for (size_t k = 0; k < steps; ++k) {
      const auto live = std::count_if(used.begin(), used.end(),
                                      [&](const auto& rank) { return k < rank.size(); });
      optimizer.zero_grad();
      for (size_t r = 0; r < used.size(); ++r) {
        for (int m = 0; k < used[r].size() && m < micro_batches; ++m) {
          scale(loss_of(net, static_cast<int>(r), used[r][k], micro_batches, m),
                1.0 / static_cast<double>(live))
              .backward();
        }
      }
      optimizer.step();
    }
  }
  return values_of_net(net);
}

void one_step(SmallNet& net, DataParallel& ddp, Sgd& optimizer, int64_t batch, int micro_batches) {
  optimizer.zero_grad();
  for (int m = 0; m < micro_batches; ++m) {
    const Variable loss = loss_of(net, ddp.group().rank(), batch, micro_batches, m);
    if (m + 1 < micro_batches) {
      const NoSync accumulate_only = ddp.no_sync();
      loss.backward();
    } else {
      loss.backward();
    }
  }
  optimizer.step();
}

bool same_bits(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Tensor& x, const Tensor& y) {
    return x.nbytes() == y.nbytes() && std::memcmp(x.raw(), y.raw(), x.nbytes()) == 0;
  });
}

/// Every rank's parameters after joined epochs with counts[rank] batches.
std::vector<std::vector<Tensor>> joined(const std::vector<int64_t>& counts, const DdpOptions& ddp,
                                        int epochs, int micro_batches) {
  std::vector<std::vector<Tensor>> values(counts.size());
  on_ranks(static_cast<int>(counts.size()), [&](ProcessGroup& group) {
    const auto me = static_cast<size_t>(group.rank());
    SmallNet net(DType::kF64, 1 + me);
    Join join(net, group);
    DataParallel parallel(net, group, join.options(ddp));
    Sgd optimizer(net.named_parameters(), optimizing());
    const int64_t most = *std::max_element(counts.begin(), counts.end());
    for (int epoch = 0; epoch < epochs; ++epoch) {
      for (int64_t k = 0; k < counts[me]; ++k) {
        join.step();
        one_step(net, parallel, optimizer, k, micro_batches);
      }
      const int64_t shadowed = join.finish(parallel, [&] { optimizer.step(); });
      check(shadowed == most - counts[me], "shadowed ", shadowed);
    }
    values[me] = values_of_net(net);
  });
  return values;
}

Plan own_batches(const std::vector<int64_t>& counts) {
  Plan plan;
  for (const int64_t count : counts) {
    plan.emplace_back();
    for (int64_t k = 0; k < count; ++k) plan.back().push_back(k);
  }
  return plan;
}

const std::vector<std::vector<int64_t>> kCounts{{5, 3}, {3, 5}, {5, 3, 4}, {0, 2, 3}, {2, 2, 2}};

TEST_CASE("join: the mean over the ranks that have a batch, and one model on all ranks") {
  for (const auto& counts : kCounts) {
    for (const int micro_batches : {1, 3}) {
      const auto wanted = in_one_process(own_batches(counts), 2, micro_batches);
      for (DdpMode mode : kAveraging) {
        for (const double cap_mb : {1.0 / 1024, 25.0}) {
          CAPTURE(name_of(mode));
          CAPTURE(cap_mb);
          const auto values =
              joined(counts, {.mode = mode, .bucket_cap_mb = cap_mb}, 2, micro_batches);
          for (const auto& rank : values) {
            CHECK(same_bits(rank, values[0]));
            CHECK(largest_difference(rank, wanted) <= kTolerance);
          }
        }
      }
    }
  }
}

TEST_CASE("join beside a communication hook and beside find_unused_parameters") {
  const std::vector<int64_t> counts{5, 3, 4};
  const auto wanted = in_one_process(own_batches(counts), 1, 2);
  for (const bool skip : {false, true}) {
    const auto values =
        joined(counts, {.find_unused_parameters = true, .skip_unused_buckets = skip}, 1, 2);
    for (const auto& rank : values) CHECK(same_bits(rank, values[0]));
    CHECK(largest_difference(values[0], wanted) <= kTolerance);
  }
  on_ranks(3, [&](ProcessGroup& group) {
    SmallNet net(DType::kF64);
    Join join(net, group);
    DataParallel ddp(
        net, group,
        join.options({.reduction = run_comm_hook(std::make_shared<AllReduceHook>(), group)}));
    Sgd optimizer(net.named_parameters(), optimizing());
    for (int64_t k = 0; k < counts[static_cast<size_t>(group.rank())]; ++k) {
      join.step();
      one_step(net, ddp, optimizer, k, 2);
    }
    join.finish(ddp, [&] { optimizer.step(); });
    check(largest_difference(values_of_net(net), wanted) <= kTolerance, "hook: other values");
  });
}

TEST_CASE("pad and drop: each rank's steps against one process; error names the counts") {
  for (const auto& counts : {std::vector<int64_t>{5, 3}, {5, 3, 4}}) {
    const int64_t most = 5, least = 3;
    for (const Uneven uneven : {Uneven::kPad, Uneven::kDrop}) {
      Plan plan;
      for (const int64_t count : counts) {
        plan.emplace_back();
        const int64_t steps = uneven == Uneven::kPad ? most : least;
        for (int64_t k = 0; k < steps; ++k) plan.back().push_back(k % count);
      }
      const auto wanted = in_one_process(plan, 1, 1);
      on_ranks(static_cast<int>(counts.size()), [&](ProcessGroup& group) {
        const int64_t mine = counts[static_cast<size_t>(group.rank())];
        SmallNet net(DType::kF64);
        DataParallel ddp(net, group);
        Sgd optimizer(net.named_parameters(), optimizing());
        const int64_t steps = steps_of_rank(mine, uneven, group);
        for (int64_t k = 0; k < steps; ++k) one_step(net, ddp, optimizer, k % mine, 1);
        check(largest_difference(values_of_net(net), wanted) <= kTolerance, name_of(uneven));
      });
    }
  }
  on_ranks(3, [](ProcessGroup& group) {
    const int64_t mine = std::vector<int64_t>{5, 3, 4}[static_cast<size_t>(group.rank())];
    CHECK(steps_of_rank(mine, Uneven::kJoin, group) == mine);
    CHECK(steps_of_rank(4, Uneven::kError, group) == 4);
    CHECK_THROWS_WITH_AS(steps_of_rank(mine, Uneven::kError, group), doctest::Contains("5, 3, 4"),
                         ArgumentError);
    CHECK_THROWS_WITH_AS(steps_of_rank(group.rank(), Uneven::kPad, group),
                         doctest::Contains("rank 0 has no batch to repeat"), ArgumentError);
    CHECK(steps_of_rank(group.rank(), Uneven::kDrop, group) == 0);
    CHECK_THROWS_AS(steps_of_rank(group.rank() == 1 ? -1 : 2, Uneven::kDrop, group), ArgumentError);
  });
  CHECK(uneven_named("pad") == Uneven::kPad);
  CHECK(name_of(uneven_named("error")) == std::string("error"));
  CHECK_THROWS_AS(uneven_named("wait"), ArgumentError);
}

}  // namespace
}  // namespace lockstep
