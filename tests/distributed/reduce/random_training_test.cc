// Training of a random shape, against a model of what gradients there must be: any mode, caps,
// order of use, unused parameters, micro-batches, zero_grad or none, failures in between.
#include "lockstep/distributed/data_parallel.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tests/distributed/rank_groups.h"
#include "lockstep/tests/distributed/reduce/toy.h"
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>
#include <omp.h>

#include <algorithm>
#include <map>
#include <random>

namespace lockstep {
namespace {

using testing::GroupPtr;
using testing::thrown_by;
using testing::Toy;

struct Dice {
  std::mt19937 random;
  int below(int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); }
  bool percent(int p) { return below(100) < p; }
  /// A subset, in any order; `keep` is the share of parameters in percent.
  std::vector<int> order(int keep) {
    std::vector<int> order;
    for (int i : Toy::all()) {
      if (percent(keep)) order.push_back(i);
    }
    std::shuffle(order.begin(), order.end(), random);
    return order;
  }
};

/// The gradients that every rank must have, by parameter; none where it must be unset. The same
/// numbers on every rank, as all of them throw the same dice.
class Expected {
 public:
  explicit Expected(int ranks) : ranks_(ranks) {}
  void forget() { mean_.clear(), used_.clear(); }
  void use(int param, int rank, int step) { used_[param].push_back({rank, step}); }
  /// After a synchronised backward.
  void check_ranks(const Toy& toy) {
    for (auto& [param, uses] : used_) {
      const Tensor more = toy.mean_of(param, ranks_, uses);
      if (mean_.count(param) == 0) {
        mean_[param] = more;
      } else {
        ops::add_scaled(more, 1.0, mean_[param]);
      }
    }
    used_.clear();
    for (int i : Toy::all()) {
      const auto got = toy.grad(i);
      const auto wanted = mean_.find(i);
      check(got.has_value() == (wanted != mean_.end()), "p", i,
            got ? " has a gradient" : " has none");
      if (!got) continue;
      const Tensor difference = ops::clone(wanted->second);
      Tensor d = difference;
      ops::add_scaled(ops::cast(*got, DType::kF64), -1.0, d);
      for (double x : d.to_vector<double>()) {
        check(std::abs(x) < 1e-5, "p", i, " differs by ", x);  // f32, sums of a few numbers below 1
      }
    }
  }

 private:
  int ranks_;
  std::map<int, Tensor> mean_;
  std::map<int, std::vector<Toy::Use>> used_;
};

DdpOptions random_options(Dice& dice) {
  DdpOptions options;
  options.mode = testing::kAveraging[dice.below(3)];
  const double caps[] = {0, 100.0 / 1024 / 1024, 400.0 / 1024 / 1024, 25};
  options.bucket_cap_mb = caps[dice.below(4)];
  options.first_bucket_cap_mb = caps[dice.below(4)];
  options.replan = dice.percent(70);
  options.find_unused_parameters = true;
  options.skip_unused_buckets = dice.percent(40);
  return options;
}

void train(ProcessGroup& group, Device device, unsigned seed) {
  Dice dice{std::mt19937(seed)};
  const int ranks = group.size();
  Toy toy(group.rank(), /*mixed=*/true, device);
  DataParallel ddp(toy, group, random_options(dice));
  Expected expected(ranks);
  int loss = 0;  // number of the next one
  for (int step = 0; step < 8; ++step) {
    if (dice.percent(75)) {
      toy.zero_grad();
      expected.forget();
    }
    if (dice.percent(15)) {  // every rank fails at one parameter, which all of them reach
      const int at = dice.below(Toy::kParams);
      const HookHandle failing = toy.params[static_cast<size_t>(at)].parameter.on_grad_ready(
          [](const Variable&) { throw Error("stop"); });
      check(thrown_by([&] { toy.loss(loss).backward(); }) == "stop", "no failure");
      toy.zero_grad();
      expected.forget();
    }
    const int micro_batches = 1 + dice.below(3), keep = 20 + dice.below(80);
    for (int m = 0; m < micro_batches; ++m, ++loss) {
      const bool last = m + 1 == micro_batches;
      for (int rank = 0; rank < ranks; ++rank) {
        const std::vector<int> order = dice.percent(10) ? std::vector<int>{} : dice.order(keep);
        for (int i : order) expected.use(i, rank, loss);
        if (rank != group.rank()) continue;
        std::optional<Variable> y;
        if (!order.empty()) y = toy.loss(loss, order);
        if (!last) {
          const NoSync no_sync = ddp.no_sync();
          if (y) y->backward();
        } else if (y) {
          y->backward();
        } else {
          ddp.contribute_nothing();
        }
      }
    }
    expected.check_ranks(toy);
  }
}

TEST_CASE("random training gives the gradients that it should") {
  for (const std::string& backend : testing::kBackends) {
    for (int ranks : {3, 4}) {
      const unsigned rounds = backend == "threads" ? 40 : 6;
      CAPTURE(backend);
      CAPTURE(ranks);
      testing::run_all_well(backend, ranks, [&](GroupPtr group) {
        omp_set_num_threads(1);
        for (unsigned seed = 0; seed < rounds; ++seed) {
          const std::string text = thrown_by([&] {
            train(*group, testing::device_of(backend), 1000 * static_cast<unsigned>(ranks) + seed);
          });
          check(text.empty(), "seed ", seed, ": ", text);
        }
      });
    }
  }
}

}  // namespace
}  // namespace lockstep
