// Over several groups in turn, collectives end in any order: the bitmap of used parameters, which
// is sent before the buckets, may arrive after them.
#include "lockstep/distributed/comm/round_robin_group.h"
#include "lockstep/distributed/comm/thread_group.h"
#include "lockstep/distributed/reduce/reducer.h"
#include "lockstep/tests/distributed/reduce/toy.h"

#include <doctest/doctest.h>

#include <thread>
#include <utility>

namespace lockstep {
namespace {

using testing::Toy;

TEST_CASE("a bitmap that arrives after the buckets is waited for") {
  constexpr int kRanks = 3;
  auto slow = make_thread_groups(kRanks, {.delay = [](int, int64_t) {
                                   std::this_thread::sleep_for(std::chrono::milliseconds(30));
                                 }});
  auto fast = make_thread_groups(kRanks);
  spawn(kRanks, [&](ProcessGroup& ranks) {
    const int rank = ranks.rank();
    std::vector<std::unique_ptr<ProcessGroup>> groups;
    groups.push_back(std::move(slow[static_cast<size_t>(rank)]));
    groups.push_back(std::move(fast[static_cast<size_t>(rank)]));
    const auto group = make_round_robin_group(std::move(groups));
    Toy toy(rank, /*mixed=*/false);
    Reducer reducer(toy.params, plan_buckets(toy.specs, {}), *group,
                    {.find_unused_parameters = true});
    check(reducer.plan().buckets.size() == 1, "wanted the bitmap and one bucket in turn");
    for (int step = 0; step < 3; ++step) {
      toy.zero_grad();
      toy.loss(step, rank == step ? Toy::all_but({5}) : Toy::all_but({3, 5})).backward();
      toy.expect_all_but({3, 5}, kRanks, step);
      toy.expect(3, kRanks, {{step, step}});
      toy.expect(5, kRanks, {});
    }
  });
}

}  // namespace
}  // namespace lockstep
