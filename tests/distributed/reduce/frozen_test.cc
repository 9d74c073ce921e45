// Parameters that are not trained, or not by this wrapper: frozen before and after wrapping, and
// ignored.
#include "lockstep/distributed/data_parallel.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tests/distributed/reduce/counting_group.h"
#include "lockstep/tests/distributed/reduce/toy.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace lockstep {
namespace {

using testing::CountingGroup;
using testing::kAveraging;
using testing::on_ranks;
using testing::same_on_all;
using testing::thrown_by;
using testing::Toy;

constexpr int kRanks = 3;

void freeze(Toy& toy, const std::vector<int>& params, bool frozen = true) {
  for (int i : params) toy.params[static_cast<size_t>(i)].parameter.set_requires_grad(!frozen);
}

std::string names_in(const DataParallel& ddp) {
  std::string names;
  for (const ParamSpec& spec : ddp.param_specs()) names += spec.name + " ";
  return names;
}

void expect_words(const std::string& text, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    check(text.find(word) != std::string::npos, "\"", text, "\" lacks \"", word, "\"");
  }
}

DdpOptions each_alone(DdpMode mode) {
  return {.mode = mode, .bucket_cap_mb = 0, .first_bucket_cap_mb = 0};
}

TEST_CASE("frozen before wrapping: in no bucket, but rank 0's value") {
  for (DdpMode mode : kAveraging) {
    CAPTURE(name_of(mode));
    on_ranks(kRanks, [&](ProcessGroup& inner) {
      CountingGroup group(inner);
      Toy toy(group.rank());
      freeze(toy, {0, 4, 8});
      for (auto& [name, parameter] : toy.params) {
        ops::fill(parameter.mutable_data(), 1 + group.rank());
      }
      DataParallel ddp(toy, group, each_alone(mode));
      check(names_in(ddp) == "p1 p2 p3 p5 p6 p7 ", names_in(ddp));
      for (int step = 0; step < 3; ++step) {
        const int64_t before = group.all_reduces;
        toy.zero_grad();
        toy.loss(step).backward();
        check(group.all_reduces - before == 6 + 1, "other collectives than 6 buckets and a bitmap");
        toy.expect_all_but({0, 4, 8}, kRanks, step);
        for (int i : {0, 4, 8}) toy.expect(i, kRanks, {});
      }
      for (auto& [name, parameter] : toy.params) {
        check(ops::cast(parameter.data().reshape({-1}).slice(0, 1), DType::kF64).item() == 1, name,
              ": not rank 0's value");
      }
    });
  }
}

TEST_CASE("all frozen is an error that says so") {
  on_ranks(kRanks, [](ProcessGroup& group) {
    Toy toy(group.rank());
    freeze(toy, Toy::all());
    const auto wrap = [&] { DataParallel ddp(toy, group); };
    expect_words(same_on_all(thrown_by(wrap), group),
                 {"all are frozen", "set_requires_grad(true)"});
    freeze(toy, Toy::all(), false);
    wrap();  // the group goes on
  });
}

TEST_CASE("frozen after wrapping, on all ranks or one: named, with the remedy") {
  for (const bool on_one : {false, true}) {
    CAPTURE(on_one);
    on_ranks(kRanks, [&](ProcessGroup& group) {
      Toy toy(group.rank());
      DataParallel ddp(toy, group);
      toy.loss(0).backward();
      toy.zero_grad();
      const bool frozen = !on_one || group.rank() == 1;
      freeze(toy, {4}, frozen);
      const std::string text = same_on_all(thrown_by([&] { toy.loss(1).backward(); }), group);
      expect_words(text, {on_one ? "rank 1: " : "rank 0: ", "p4", "rebuild()"});

      freeze(toy, {4});
      ddp.rebuild();
      check(names_in(ddp).find("p4") == std::string::npos, names_in(ddp));
      toy.zero_grad();
      toy.loss(2).backward();
      toy.expect_all_but({4}, kRanks, 2);
      toy.expect(4, kRanks, {});
    });
  }
}

TEST_CASE("frozen after wrapping, with the search: no gradient, and unfrozen again it has one") {
  for (DdpMode mode : kAveraging) {
    CAPTURE(name_of(mode));
    on_ranks(kRanks, [&](ProcessGroup& group) {
      Toy toy(group.rank());
      DdpOptions options = each_alone(mode);
      options.find_unused_parameters = true;
      DataParallel ddp(toy, group, options);
      for (int step = 0; step < 4; ++step) {
        freeze(toy, {2, 4}, step % 2 == 1);
        toy.zero_grad();
        toy.loss(step).backward();
        toy.expect_all_but({2, 4}, kRanks, step);
        for (int i : {2, 4}) {
          if (step % 2 == 1) toy.expect(i, kRanks, {});
          if (step % 2 == 0) toy.expect(i, kRanks, {{0, step}, {1, step}, {2, step}});
        }
      }
    });
  }
}

/// In which each rank uses the parameters.
std::vector<int> order_of(int rank) {
  std::vector<int> order = Toy::all();
  std::rotate(order.begin(), order.begin() + 3 * rank, order.end());
  return order;
}

TEST_CASE("unfrozen after wrapping: named on every rank, though they come to it at other times") {
  for (DdpMode mode : kAveraging) {
    for (const bool accumulate : {false, true}) {
      CAPTURE(name_of(mode));
      CAPTURE(accumulate);
      on_ranks(kRanks, [&](ProcessGroup& group) {
        Toy toy(group.rank());
        freeze(toy, {4, 5});
        DataParallel ddp(toy, group, each_alone(mode));
        toy.loss(0, order_of(group.rank())).backward();
        freeze(toy, {4}, false);
        const std::string text = thrown_by([&] {
          if (accumulate) {
            const NoSync while_accumulating = ddp.no_sync();
            toy.loss(1, order_of(group.rank())).backward();
          }
          toy.loss(2, order_of(group.rank())).backward();
        });
        expect_words(same_on_all(text, group), {"p4", "frozen", "rebuild()"});
        ddp.rebuild();
        check(names_in(ddp) == "p0 p1 p2 p3 p4 p6 p7 p8 ", names_in(ddp));
        for (int step = 3; step < 5; ++step) {
          toy.zero_grad();
          toy.loss(step, order_of(group.rank())).backward();
          toy.expect_all_but({5}, kRanks, step);
        }
      });
    }
  }
}

TEST_CASE("unfrozen on one rank alone: every rank names rank and parameter, and nobody waits") {
  for (DdpMode mode : kAveraging) {
    CAPTURE(name_of(mode));
    on_ranks(kRanks, [&](ProcessGroup& group) {
      Toy toy(group.rank());
      freeze(toy, {4, 5});
      DataParallel ddp(toy, group, each_alone(mode));
      toy.loss(0).backward();
      if (group.rank() == 1) freeze(toy, {4}, false);
      const std::string text = thrown_by([&] { toy.loss(1).backward(); });
      expect_words(same_on_all(text, group), {"rank 1", "p4", "frozen", "rebuild()"});
      freeze(toy, {4});
      toy.zero_grad();
      toy.loss(2).backward();
      toy.expect_all_but({4, 5}, kRanks, 2);
    });
  }
}

TEST_CASE("unfrozen after wrapping is noticed where nothing else is trained any more") {
  on_ranks(kRanks, [](ProcessGroup& group) {
    Toy toy(group.rank());
    freeze(toy, {4, 5});
    DataParallel ddp(toy, group);
    toy.loss(0).backward();
    freeze(toy, Toy::all());
    freeze(toy, {5}, false);
    expect_words(thrown_by([&] { toy.loss(1).backward(); }), {"p5", "rebuild()"});
    ddp.rebuild();
    toy.zero_grad();
    toy.loss(2).backward();
    toy.expect(5, kRanks, {{0, 2}, {1, 2}, {2, 2}});
  });
}

TEST_CASE("rebuild keeps what was trained, and refuses to run under no_sync") {
  on_ranks(kRanks, [](ProcessGroup& group) {
    Toy toy(group.rank());
    freeze(toy, {4});
    DataParallel ddp(toy, group);
    Sgd optimizer({toy.params[0], toy.params[1]}, {.lr = 1});
    toy.loss(0).backward();
    optimizer.step();
    const auto before = toy.params[0].parameter.data().to_vector<double>();
    {
      const NoSync no_sync = ddp.no_sync();
      expect_words(thrown_by([&] { ddp.rebuild(); }), {"no_sync"});
    }
    freeze(toy, {4}, false);
    ddp.rebuild();
    check(toy.params[0].parameter.data().to_vector<double>() == before, "the value changed");
    toy.zero_grad();
    toy.loss(1).backward();
    toy.expect_all(kRanks, {1});
    optimizer.step();
    check(optimizer.passes_of_last_step() == 2, "f64 and f32");
  });
}

TEST_CASE("rebuild that throws leaves what was wrapped in use") {
  on_ranks(kRanks, [](ProcessGroup& group) {
    Toy toy(group.rank());
    bool fail = false;
    DataParallel ddp(toy, group,
                     {.planner = [&](std::span<const ParamSpec> params, const BucketCaps& caps) {
                       check(!fail, "no plan");
                       return plan_buckets(params, caps);
                     }});
    toy.loss(0).backward();
    freeze(toy, Toy::all());
    expect_words(thrown_by([&] { ddp.rebuild(); }), {"all are frozen"});
    freeze(toy, Toy::all_but({4}), false);
    fail = true;
    expect_words(thrown_by([&] { ddp.rebuild(); }), {"plan"});
    fail = false;
    freeze(toy, {4}, false);
    toy.zero_grad();
    toy.loss(1).backward();
    toy.expect_all(kRanks, {1});
    ddp.rebuild();
    toy.loss(2).backward();
    toy.expect_all(kRanks, {2});
  });
}

TEST_CASE("ignored parameters stay each rank's own; an unknown name is refused") {
  on_ranks(kRanks, [](ProcessGroup& group) {
    Toy toy(group.rank());
    ops::fill(toy.params[3].parameter.mutable_data(), group.rank());
    const auto wrap = [&](std::vector<std::string> ignore) {
      return DdpOptions{.ignore = std::move(ignore)};
    };
    expect_words(same_on_all(thrown_by([&] {
                               DataParallel(toy, group, wrap({"p3", "p9"}));
                             }),
                             group),
                 {"p9"});
    DataParallel ddp(toy, group, wrap({"p3"}));
    check(names_in(ddp) == "p0 p1 p2 p4 p5 p6 p7 p8 ", names_in(ddp));
    check(toy.params[3].parameter.data().to_vector<double>()[0] == group.rank(), "overwritten");
    toy.loss(0).backward();
    toy.expect_all_but({3}, kRanks, 0);
    toy.expect(3, 1, {{group.rank(), 0}});
  });
}

}  // namespace
}  // namespace lockstep
