// Buckets follow the order in which rank 0's first synchronised backward completes its gradients.
#include "lockstep/distributed/comm/single_group.h"
#include "lockstep/distributed/comm/thread_group.h"
#include "lockstep/distributed/data_parallel.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tests/distributed/reduce/toy.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <thread>

namespace lockstep {
namespace {

using testing::kAveraging;
using testing::on_ranks;
using testing::same_on_all;
using testing::thrown_by;
using testing::Toy;

constexpr int kRanks = 3;
constexpr double kPairs = 300.0 / 1024 / 1024;  // a cap that a few gradients fill

/// In which each rank uses the parameters; backward completes them in the reverse order.
std::vector<int> order_of(int rank) {
  std::vector<int> order{4, 0, 8, 2, 6, 1, 7, 3, 5};
  std::rotate(order.begin(), order.begin() + 2 * rank % 9, order.end());
  return order;
}

/// The parameters in the order in which they are launched, "5 3 7 1 6 2 8 0 4 ".
std::string order_in(const BucketPlan& plan) {
  std::string order;
  for (const Bucket& bucket : plan.buckets) {
    for (int i : bucket.params) order += str(i, " ");
  }
  return order;
}

constexpr const char* kAtFirst = "8 7 6 5 4 3 2 1 0 ";
constexpr const char* kAsRankZero = "5 3 7 1 6 2 8 0 4 ";

TEST_CASE("the plan follows rank 0's order on every rank, whatever the others' orders") {
  for (DdpMode mode : kAveraging) {
    CAPTURE(name_of(mode));
    on_ranks(kRanks, [&](ProcessGroup& group) {
      Toy toy(group.rank());
      DataParallel ddp(toy, group, {.mode = mode, .bucket_cap_mb = 0, .first_bucket_cap_mb = 0});
      check(order_in(ddp.plan()) == kAtFirst, order_in(ddp.plan()));
      {
        const NoSync no_sync = ddp.no_sync();  // is not the backward that counts
        toy.loss(0).backward();
      }
      check(order_in(ddp.plan()) == kAtFirst, "planned anew under no_sync");
      toy.zero_grad();
      for (int step = 0; step < 4; ++step) {
        toy.zero_grad();
        // Later orders do not count any more.
        toy.loss(step, order_of(group.rank() + step)).backward();
        toy.expect_all(kRanks, {step});
        check(order_in(ddp.plan()) == kAsRankZero, order_in(ddp.plan()));
      }
    });
  }
}

TEST_CASE("values, gradients and momentum keep their bits, and the passes stay few") {
  for (const bool mixed : {false, true}) {
    CAPTURE(mixed);
    on_ranks(kRanks, [mixed](ProcessGroup& group) {
      const auto train = [&](bool replan) {
        Toy toy(group.rank(), mixed);
        DataParallel ddp(
            toy, group, {.bucket_cap_mb = kPairs, .first_bucket_cap_mb = kPairs, .replan = replan});
        const BucketPlan at_first = ddp.plan();
        Sgd optimizer(toy.params, {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01});
        std::vector<double> numbers;
        for (int step = 0; step < 4; ++step) {
          optimizer.zero_grad();
          if (step == 0) {  // momentum from before the change has to move with it
            const NoSync no_sync = ddp.no_sync();
            toy.loss(9).backward();
            optimizer.step();
          }
          toy.loss(step, order_of(group.rank())).backward();
          const auto note = [&](const Tensor& t) {
            const auto values = ops::cast(t, DType::kF64).to_vector<double>();
            numbers.insert(numbers.end(), values.begin(), values.end());
          };
          for (int i = 0; i < Toy::kParams; ++i) note(*toy.grad(i));
          optimizer.step();
          for (const auto& [name, parameter] : toy.params) note(parameter.data());
          for (const NamedTensor& state : optimizer.state().tensors) note(state.tensor);
          check(optimizer.passes_of_last_step() == (mixed ? 2 : 1), "step ", step, ": ",
                optimizer.passes_of_last_step(), " passes");
        }
        check((ddp.plan() == at_first) == !replan, "plan ", order_in(ddp.plan()));
        return numbers;
      };
      check(train(true) == train(false), "other bits");
    });
  }
}

TEST_CASE("a gradient from before the change says so; memory of its own is left alone") {
  on_ranks(kRanks, [](ProcessGroup& group) {
    Toy toy(group.rank());
    DataParallel ddp(toy, group);
    {
      const NoSync no_sync = ddp.no_sync();
      toy.loss(0).backward();
    }
    const Tensor held = *toy.grad(3);
    const Tensor copy = ops::clone(held);
    const auto before = held.to_vector<double>();
    toy.zero_grad();
    toy.loss(1, order_of(group.rank())).backward();
    const std::string text = thrown_by([&] { held.to_vector<double>(); });
    check(text.find("planned anew") != std::string::npos, "got \"", text, "\"");
    check(copy.to_vector<double>() == before, "the copy changed");
    toy.expect_all(kRanks, {1});
  });
}

TEST_CASE("no new plan: switched off, the same order, one rank") {
  on_ranks(kRanks, [](ProcessGroup& group) {
    for (const bool replan : {false, true}) {
      Toy toy(group.rank());
      DataParallel ddp(toy, group, {.replan = replan});
      const std::vector<int> order = replan ? Toy::all() : order_of(group.rank());
      const std::string plan = order_in(ddp.plan());
      const Tensor held = toy.params[3].parameter.grad_slot();
      toy.loss(0, order).backward();
      toy.zero_grad();
      toy.loss(1, order_of(group.rank())).backward();  // too late to count
      check(order_in(ddp.plan()) == plan, "planned anew");
      check(held.raw() == toy.grad(3)->raw(), "the gradient moved");
    }
  });
  const auto single = make_single_group();
  Toy toy(0);
  DataParallel ddp(toy, *single);
  const std::string plan = order_in(ddp.plan());
  toy.loss(0, order_of(0)).backward();
  CHECK(order_in(ddp.plan()) == plan);
}

TEST_CASE("reductions that are late when the plan changes, and after it") {
  for (DdpMode mode : kAveraging) {
    CAPTURE(name_of(mode));
    spawn(kRanks,
          [&](ProcessGroup& group) {
            for (int round = 0; round < 3; ++round) {
              Toy toy(group.rank());
              DataParallel ddp(toy, group,
                               {.mode = mode, .bucket_cap_mb = kPairs, .first_bucket_cap_mb = 0});
              for (int step = 0; step < 4; ++step) {
                toy.zero_grad();
                toy.loss(step, order_of(group.rank())).backward();
                toy.expect_all(kRanks, {step});
              }
            }
          },
          {.delay = [](int rank, int64_t sequence) {
            if ((rank + sequence) % 3 != 0) return;
            std::this_thread::sleep_for(std::chrono::milliseconds(4));
          }});
  }
}

TEST_CASE("what rank 0's first backward did not reach comes last") {
  on_ranks(kRanks, [](ProcessGroup& group) {
    Toy toy(group.rank());
    DataParallel ddp(
        toy, group, {.bucket_cap_mb = 0, .first_bucket_cap_mb = 0, .find_unused_parameters = true});
    std::vector<int> order = order_of(0);
    if (group.rank() == 0) std::erase(order, 3), std::erase(order, 6);
    toy.loss(0, order).backward();
    check(order_in(ddp.plan()) == std::string("5 7 1 2 8 0 4 6 3 "), order_in(ddp.plan()));
    toy.zero_grad();
    toy.loss(1, order).backward();
    toy.expect_all_but({3, 6}, kRanks, 1);
    for (int i : {3, 6}) toy.expect(i, kRanks, {{1, 1}, {2, 1}});

    Toy idle(group.rank());
    DataParallel other(idle, group, {.find_unused_parameters = true});
    const std::string plan = order_in(other.plan());
    if (group.rank() == 0) {
      other.contribute_nothing();
    } else {
      idle.loss(0, order).backward();
    }
    check(order_in(other.plan()) == plan, "a rank that reaches nothing has no order");
  });
}

TEST_CASE("an adopted plan is kept, with values and gradients, and a wrong one changes nothing") {
  on_ranks(kRanks, [](ProcessGroup& group) {
    Toy toy(group.rank());
    DataParallel ddp(toy, group, {.bucket_cap_mb = kPairs, .first_bucket_cap_mb = 0});
    for (auto& [name, parameter] : toy.params) ops::fill(parameter.mutable_data(), 2.5);
    {
      const NoSync no_sync = ddp.no_sync();
      toy.loss(0).backward();
    }
    std::vector<int> arrival = order_of(1);
    const BucketPlan plan = plan_in_order(plan_buckets, ddp.param_specs(), arrival, {});
    BucketPlan wrong = plan;
    wrong.buckets.back().params.pop_back();
    const std::string text = thrown_by([&] { ddp.adopt_plan(wrong); });
    check(text.find("lacks") != std::string::npos, "got \"", text, "\"");
    ddp.adopt_plan(plan);
    check(ddp.plan() == plan, "another plan");
    for (const auto& [name, parameter] : toy.params) {
      check(ops::cast(parameter.data().reshape({-1}).slice(0, 1), DType::kF64).item() == 2.5, name);
    }
    toy.loss(1, order_of(0)).backward();
    toy.expect_all(kRanks, {0, 1});
    check(ddp.plan() == plan, "the adopted plan was not kept");

    const HookHandle within =
        toy.params[5].parameter.on_grad_ready([&](const Variable&) { ddp.adopt_plan(plan); });
    const std::string refused = thrown_by([&] { toy.loss(2).backward(); });
    check(refused.find("within a backward") != std::string::npos, "got \"", refused, "\"");
  });
}

TEST_CASE("ranks that adopt unlike plans have rank 0's") {
  on_ranks(kRanks, [](ProcessGroup& group) {
    Toy toy(group.rank(), /*mixed=*/false);  // buckets of one size, which would be added up
    DataParallel ddp(toy, group);
    const auto plan_of = [&](int rank) {
      return plan_in_order(plan_buckets, ddp.param_specs(), order_of(rank), {.first_mb = 0});
    };
    ddp.adopt_plan(plan_of(group.rank()));
    check(ddp.plan() == plan_of(0), "another plan");
    toy.loss(0).backward();
    toy.expect_all(kRanks, {0});
  });
}

}  // namespace
}  // namespace lockstep
