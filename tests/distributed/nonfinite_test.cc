// Gradients that are not finite: found on every rank alike, and named after the first whose they
// are.
#include "lockstep/distributed/nonfinite.h"

#include "lockstep/autograd/ops/elementwise.h"
#include "lockstep/autograd/ops/loss.h"
#include "lockstep/distributed/comm/thread_group.h"
#include "lockstep/distributed/data_parallel.h"
#include "lockstep/nn/nn.h"
#include "lockstep/tensor/ops/copy.h"

#include <doctest/doctest.h>

#include <array>
#include <limits>
#include <optional>

namespace lockstep {
namespace {

struct Net : Module {
  Generator init{1};
  Linear one{{.in_features = 4, .out_features = 3}, init};
  Linear two{{.in_features = 3, .out_features = 2}, init};

  Net() {
    register_module("one", one);
    register_module("two", two);
  }
  Variable loss() {
    const Tensor x = ops::full({5, 4}, 0.5, DType::kF32);
    return cross_entropy(two.forward(one.forward(Variable(x))), Tensor::zeros({5}, DType::kI64));
  }
};

/// What the watch of one rank says after a backward.
struct Seen {
  bool found = false;
  NonfiniteGradient first = {};
};

std::array<std::array<Seen, 2>, 3> backward_twice(
    const std::array<std::function<Variable*(Net&)>, 3>& spoil, double factor_of_sum = 1) {
  std::array<std::array<Seen, 2>, 3> seen;
  spawn(3, [&](ProcessGroup& group) {
    const auto rank = static_cast<size_t>(group.rank());
    Net net;
    NonfiniteWatch watch;
    int backwards = 0;
    std::optional<HookHandle> hook;
    if (spoil[rank] != nullptr) {
      hook.emplace(spoil[rank](net)->on_grad_ready([&](const Variable& parameter) {
        if (backwards > 0) return;
        Tensor grad = *parameter.grad();
        grad.mutable_data<float>()[grad.numel() - 1] = -std::numeric_limits<float>::infinity();
      }));
    }
    DdpOptions options{.bucket_cap_mb = 0,
                       .nonfinite = [&](const GradBucket& bucket) { watch.note(bucket); }};
    if (factor_of_sum != 1) {  // a hook that may lose what a rank has marked, too
      options.reduction = [&](const GradBucket& bucket) {
        Tensor flat = bucket.flat;
        ops::scale(flat, factor_of_sum);
        ops::scale(flat, factor_of_sum);
        return group.all_reduce(flat);
      };
    }
    DataParallel ddp(net, group, options);
    for (Seen& mine : seen[rank]) {
      for (const NamedParameter& named : ddp.parameters()) {
        Variable(named.parameter).zero_grad();
      }
      net.loss().backward();
      mine.found = watch.found(ddp.parameters(), factor_of_sum != 1);
      if (mine.found) mine.first = watch.first(ddp.parameters(), group);
      ++backwards;
    }
  });
  return seen;
}

TEST_CASE("all ranks see it in the step itself, not in the next; the first rank's is named") {
  const auto seen = backward_twice(
      {nullptr, [](Net& net) { return &net.two.weight; }, [](Net& net) { return &net.two.bias; }});
  for (const auto& [spoiled, next] : seen) {
    CHECK(spoiled.found);
    CHECK(spoiled.first == NonfiniteGradient{.parameter = "two.weight", .rank = 1});
    CHECK_FALSE(next.found);
  }
  CHECK(describe(seen[0][0].first) == "the gradient of two.weight, first on rank 1");
}

TEST_CASE("what becomes infinite in the sum is nobody's own") {
  const auto seen = backward_twice({nullptr, nullptr, nullptr}, 1e30);
  for (const auto& both : seen) {
    for (const Seen& one : both) {
      CHECK(one.found);
      CHECK(one.first.rank == -1);
      CHECK_FALSE(one.first.parameter.empty());
    }
  }
  CHECK(describe(seen[0][0].first).find(", each of which is finite") != std::string::npos);
}

TEST_CASE("finite gradients are not found") {
  for (const auto& both : backward_twice({nullptr, nullptr, nullptr})) {
    for (const Seen& one : both) CHECK_FALSE(one.found);
  }
}

TEST_CASE("a watched reduction notes what was spoiled after the reducer looked") {
  spawn(3, [](ProcessGroup& group) {
    Net net;
    NonfiniteWatch watch;
    BucketReduction inner =
        watch.watched([&](const GradBucket& b) { return group.all_reduce(b.flat); });
    DataParallel ddp(net, group, {.reduction = [&](const GradBucket& bucket) {
                       Tensor last = bucket.params.back().grad;
                       if (group.rank() == 2 && bucket.index == 0) {
                         ops::fill(last, std::numeric_limits<double>::quiet_NaN());
                       }
                       return inner(bucket);
                     }});
    net.loss().backward();
    CHECK(watch.found(ddp.parameters(), /*thorough=*/false));
    CHECK(watch.first(ddp.parameters(), group).rank == 2);
  });
}

}  // namespace
}  // namespace lockstep
