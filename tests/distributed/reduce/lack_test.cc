// Without the search for unused parameters, one without a gradient is an error: in the same
// backward, on every rank, in the same words.
#include "lockstep/distributed/comm/single_group.h"
#include "lockstep/distributed/data_parallel.h"
#include "lockstep/tests/distributed/reduce/toy.h"

#include <doctest/doctest.h>

namespace lockstep {
namespace {

using testing::kAveraging;
using testing::on_ranks;
using testing::same_on_all;
using testing::thrown_by;
using testing::Toy;

constexpr int kRanks = 3;

void expect_words(const std::string& text, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    check(text.find(word) != std::string::npos, "\"", text, "\" lacks \"", word, "\"");
  }
}

TEST_CASE("the error names rank, bucket, parameters and remedies, and the group goes on") {
  for (DdpMode mode : kAveraging) {
    CAPTURE(name_of(mode));
    on_ranks(kRanks, [&](ProcessGroup& group) {
      Toy toy(group.rank());
      DataParallel ddp(toy, group, {.mode = mode, .bucket_cap_mb = 0, .first_bucket_cap_mb = 0});
      toy.loss(0).backward();
      for (int step = 1; step < 6; step += 2) {
        toy.zero_grad();
        const auto order = group.rank() == 1 ? Toy::all_but({4, 7}) : Toy::all();
        const std::string text =
            same_on_all(thrown_by([&] { toy.loss(step, order).backward(); }), group);
        // Each gradient is its own bucket, and the last parameter is in the first.
        expect_words(text, {"rank 1: ", "p4 (bucket 4)", "p7 (bucket 1)", "find_unused_parameters",
                            "set_requires_grad(false)", "ignore"});
        check(text.find("missing on") == std::string::npos, text);
        toy.zero_grad();
        toy.loss(step + 1).backward();
        toy.expect_all(kRanks, {step + 1});
      }
    });
  }
}

TEST_CASE("many parameters, on several ranks, of which one reaches nothing") {
  on_ranks(kRanks, [](ProcessGroup& group) {
    Toy toy(group.rank());
    DataParallel ddp(toy, group);
    const std::string text =
        same_on_all(thrown_by([&] {
                      if (group.rank() == 2) return ddp.contribute_nothing();
                      const auto few = Toy::all_but({1, 2, 3, 4, 5});
                      toy.loss(0, group.rank() == 0 ? Toy::all() : few).backward();
                    }),
                    group);
    expect_words(text, {"rank 1: ", "p1 ", "p2 ", "p3 ", "and 2 more", "so it is on 2 ranks"});
    toy.zero_grad();
    toy.loss(1).backward();
    toy.expect_all(kRanks, {1});
  });
}

TEST_CASE("used in a micro-batch under no_sync is used") {
  on_ranks(kRanks, [](ProcessGroup& group) {
    Toy toy(group.rank());
    DataParallel ddp(toy, group);
    {
      const NoSync no_sync = ddp.no_sync();
      toy.loss(0).backward();
    }
    toy.loss(1, Toy::all_but({4})).backward();
    toy.expect(4, kRanks, {{0, 0}, {1, 0}, {2, 0}});
    // And an error forgets: the micro-batches of a group that failed are not used later.
    {
      const NoSync no_sync = ddp.no_sync();
      toy.loss(2, Toy::all_but({5})).backward();
    }
    const auto lacking = [&] { toy.loss(3, Toy::all_but({4, 5})).backward(); };
    expect_words(same_on_all(thrown_by(lacking), group), {"p5"});
    toy.zero_grad();
    expect_words(same_on_all(thrown_by(lacking), group), {"p4", "p5"});
  });
}

TEST_CASE("what the step before has used, or one that failed, does not count") {
  on_ranks(kRanks, [](ProcessGroup& group) {
    Toy toy(group.rank());
    DataParallel ddp(toy, group);
    const auto lacking = [&] { toy.loss(1, Toy::all_but({4})).backward(); };
    // Without zero_grad() its gradient is still there.
    toy.loss(0).backward();
    expect_words(same_on_all(thrown_by(lacking), group), {"p4"});

    toy.zero_grad();
    HookHandle failing =
        toy.params[5].parameter.on_grad_ready([](const Variable&) { throw Error("stop"); });
    check(thrown_by([&] { toy.loss(2, Toy::all()).backward(); }) == "stop", "the error was lost");
    failing.reset();
    check(toy.grad(5).has_value(), "the failed backward left no gradient");
    expect_words(same_on_all(thrown_by([&] { toy.loss(3, Toy::all_but({5})).backward(); }), group),
                 {"p5"});
  });
}

TEST_CASE("a group of one says so too") {
  const auto group = make_single_group();
  Toy toy(0);
  DataParallel ddp(toy, *group);
  CHECK_THROWS_WITH_AS(toy.loss(0, Toy::all_but({4})).backward(),
                       doctest::Contains("rank 0: backward brought no gradient for p4"),
                       ArgumentError);
}

TEST_CASE("an exception in the middle of backward leaves the next step right") {
  for (DdpMode mode : kAveraging) {
    for (const bool search : {false, true}) {
      CAPTURE(name_of(mode));
      CAPTURE(search);
      on_ranks(kRanks, [&](ProcessGroup& group) {
        Toy toy(group.rank());
        DataParallel ddp(toy, group,
                         {.mode = mode,
                          .bucket_cap_mb = 0,
                          .first_bucket_cap_mb = 0,
                          .find_unused_parameters = search});
        for (int step = 0; step < 6; step += 2) {
          HookHandle failing =
              toy.params[5].parameter.on_grad_ready([](const Variable&) { throw Error("stop"); });
          check(thrown_by([&] { toy.loss(step).backward(); }) == "stop", "the error was lost");
          failing.reset();
          toy.zero_grad();
          toy.loss(step + 1, search ? Toy::all_but({4}) : Toy::all()).backward();
          toy.expect_all_but({4}, kRanks, step + 1);
          if (search) toy.expect(4, kRanks, {});  // although the failed backward reached it
        }
      });
    }
  }
}

}  // namespace
}  // namespace lockstep
