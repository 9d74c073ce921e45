// What a join does with buffers and unused parameters, what it costs, and what it refuses.
#include "lockstep/autograd/ops/elementwise.h"
#include "lockstep/autograd/ops/reduce.h"
#include "lockstep/distributed/data_parallel.h"
#include "lockstep/distributed/join.h"
#include "lockstep/distributed/sync_batch_norm.h"
#include "lockstep/nn/batch_norm.h"
#include "lockstep/tests/distributed/reduce/counting_group.h"
#include "lockstep/tests/distributed/reduce/toy.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace lockstep {
namespace {

using testing::CountingGroup;
using testing::kAveraging;
using testing::on_ranks;
using testing::thrown_by;

constexpr int kRanks = 3;

/// weight * x, and a head that may be left out; each forward adds x to a buffer.
struct Net : Module {
  Variable weight{Tensor::from<double>({2}, {1}), true};
  Variable head{Tensor::from<double>({3}, {1}), true};
  Tensor seen = Tensor::zeros({1}, DType::kF64);

  Net() {
    register_parameter("weight", weight);
    register_parameter("head", head);
    register_buffer("seen", seen);
  }
  Variable forward(double x, bool with_head = true) {
    seen.mutable_data<double>()[0] += x;
    const Variable loss = scale(weight, x);
    return sum(with_head ? loss + head : loss);
  }
};

double gradient(const Variable& parameter) { return parameter.grad()->item(); }

TEST_CASE("buffers are those of the first rank that has a batch") {
  const std::vector<int64_t> counts{1, 2, 3};
  for (DdpMode mode : kAveraging) {
    on_ranks(kRanks, [&](ProcessGroup& group) {
      Net net;
      Join join(net, group);
      DataParallel ddp(net, group, join.options({.mode = mode}));
      const double x = group.rank() + 1;
      for (int64_t k = 0; k < counts[static_cast<size_t>(group.rank())]; ++k) {
        join.step();
        net.zero_grad();
        net.forward(x).backward();
        // Step k has the ranks from k on, and the first of them counts.
        const std::vector<double> seen{1, 3, 6}, mean{2, 2.5, 3};
        check(net.seen.item() == seen[static_cast<size_t>(k)], "seen ", net.seen.item());
        check(join.live_ranks() == 3 - k, "live ", join.live_ranks());
        check(gradient(net.weight) == doctest::Approx(mean[static_cast<size_t>(k)]), "gradient");
      }
      int64_t after = counts[static_cast<size_t>(group.rank())];
      join.finish(ddp, [&] {
        const double mean = after == 1 ? 2.5 : 3;
        check(gradient(net.weight) == doctest::Approx(mean), "shadow: ", gradient(net.weight));
        check(gradient(net.head) == doctest::Approx(1), "shadow: ", gradient(net.head));
        ++after;
      });
      check(after == 3 && net.seen.item() == 6, "seen ", net.seen.item());
      ddp.broadcast_buffers();  // from the rank that was last
      check(net.seen.item() == 6, "seen ", net.seen.item());
    });
  }
}

TEST_CASE("a shadow leaves unused what the others leave unused") {
  on_ranks(kRanks, [](ProcessGroup& group) {
    Net net;
    Join join(net, group);
    DataParallel ddp(net, group, join.options({.find_unused_parameters = true}));
    const auto expect = [&](double mean) {
      check(gradient(net.weight) == doctest::Approx(mean), "got ", gradient(net.weight));
      check(!net.head.grad(), "the head has a gradient");
    };
    net.head.zero_grad();
    if (group.rank() == 1) {
      join.step();
      net.forward(4, /*with_head=*/false).backward();
      expect(4);
    }
    join.finish(ddp, [&] { expect(4); });
  });
}

TEST_CASE("what a shadow had accumulated does not count") {
  on_ranks(kRanks, [](ProcessGroup& group) {
    Net net;
    Join join(net, group);
    DataParallel ddp(net, group, join.options({}));
    if (group.rank() == 0) {
      const NoSync accumulate_only = ddp.no_sync();
      net.forward(100).backward();
    } else {
      join.step();
      net.forward(group.rank()).backward();
    }
    join.finish(ddp, [&] { check(gradient(net.weight) == doctest::Approx(1.5), "mean"); });
  });
}

TEST_CASE("the cost: one small all-reduce in a step, and none without a join") {
  on_ranks(kRanks, [](ProcessGroup& inner) {
    CountingGroup group(inner);
    Net net;
    const auto calls_of_step = [&](const std::function<void()>& before) {
      net.zero_grad();
      const int64_t calls = group.calls;
      before();
      net.forward(1).backward();
      return group.calls - calls;
    };
    int64_t plain = 0;
    {
      DataParallel ddp(net, group, {.replan = false});
      plain = calls_of_step([] {});
    }
    Join join(net, group);
    DataParallel ddp(net, group, join.options({.replan = false}));
    check(calls_of_step([&] { join.step(); }) == plain + 1, "another number of collectives");
    join.finish(ddp, nullptr);
  });
}

TEST_CASE("refused: static_graph, local mode, SyncBatchNorm, a backward without step()") {
  on_ranks(kRanks, [](ProcessGroup& group) {
    Net net;
    Join join(net, group);
    CHECK_THROWS_WITH_AS(join.options({.static_graph = true}), doctest::Contains("static_graph"),
                         ArgumentError);
    CHECK_THROWS_WITH_AS(join.options({.mode = DdpMode::kLocal}), doctest::Contains("local mode"),
                         ArgumentError);
    BatchNorm2d norm({.channels = 2});
    use_sync_batch_norm(norm, group);
    Join other(norm, group);
    CHECK_THROWS_WITH_AS(other.step(), doctest::Contains("SyncBatchNorm"), ArgumentError);

    DataParallel ddp(net, group, join.options({.replan = false, .broadcast_buffers = false}));
    join.step();
    net.forward(1).backward();
    CHECK_THROWS_WITH_AS(net.forward(1).backward(), doctest::Contains("without step()"),
                         ArgumentError);
    net.zero_grad();
    join.step();  // and it goes on
    net.forward(group.rank()).backward();
    CHECK(gradient(net.weight) == doctest::Approx(1));
    join.finish(ddp, nullptr);
  });
  on_ranks(kRanks, [](ProcessGroup& group) {
    Net net;
    DataParallel ddp(net, group, {.find_unused_parameters = false, .static_graph = true});
    CHECK_THROWS_WITH_AS(shadow_backward(ddp), doctest::Contains("static_graph"), ArgumentError);
  });
}

TEST_CASE("a rank that leaves its loop without finish() does not keep the others waiting") {
  std::vector<std::string> texts(kRanks);
  on_ranks(kRanks, [&](ProcessGroup& group) {
    Net net;
    texts[static_cast<size_t>(group.rank())] = thrown_by([&] {
      Join join(net, group);
      DataParallel ddp(net, group, join.options({}));
      join.step();
      net.forward(1).backward();
      if (group.rank() == 1) throw Error("no such file");
      join.finish(ddp, nullptr);
    });
  });
  CHECK(texts[1] == "no such file");
  for (const int rank : {0, 2}) {
    CHECK(texts[static_cast<size_t>(rank)].find("rank 1 left a joined loop") != std::string::npos);
  }
}

}  // namespace
}  // namespace lockstep
