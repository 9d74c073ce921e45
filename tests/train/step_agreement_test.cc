// What a rank asks for, and when all act on it.
#include "lockstep/train/step_agreement.h"

#include "lockstep/distributed/comm/thread_group.h"
#include "lockstep/train/save_timer.h"

#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <vector>

namespace lockstep {
namespace {

TEST_CASE("every rank hears what one asked for, and the largest of all") {
  std::array<std::array<StepRequest, 4>, 3> heard;
  spawn(3, [&](ProcessGroup& group) {
    StepAgreement agreement(group);
    auto& mine = heard[static_cast<size_t>(group.rank())];
    const bool one = group.rank() == 1;
    mine[0] = agreement.finish();  // nothing was started
    agreement.start({.stop_signal = one ? 15 : 0});
    mine[1] = agreement.finish();
    agreement.start({.stop_signal = one ? 15 : 10, .save = group.rank() == 0 ? 1 : 0});
    mine[2] = agreement.finish();
    mine[3] = agreement.exchange({});
  });
  for (const auto& mine : heard) {
    CHECK(mine[0] == StepRequest{});
    CHECK(mine[1] == StepRequest{.stop_signal = 15});
    CHECK(mine[2] == StepRequest{.stop_signal = 15, .save = 1});
    CHECK(mine[3] == StepRequest{});
  }
}

TEST_CASE("short steps take part now and then, by the slowest rank's clock, all in the same") {
  using std::chrono::milliseconds;
  std::array<std::vector<int>, 3> took_part;
  spawn(3, [&](ProcessGroup& group) {
    std::chrono::steady_clock::time_point now{std::chrono::seconds(1'000)};
    StepAgreement agreement(group, 1, [&] { return now; });
    for (int step = 0; step < 100; ++step) {
      // Of 100 ms on rank 1, and from step 50 on of 400 ms; shorter on the others.
      if (agreement.due()) {
        took_part[static_cast<size_t>(group.rank())].push_back(step);
        agreement.start({});
      }
      now += milliseconds(group.rank() == 1 ? (step < 50 ? 100 : 400) : 10);
      agreement.finish();
    }
  });
  // One step says nothing of its length, twice as many may pass each time, ten of 100 ms are a
  // second; the steps that get longer are found out at the next exchange.
  std::vector<int> wanted{0, 1, 3, 7, 15, 25, 35, 45, 55, 59};
  for (int step = 61; step < 100; step += 2) wanted.push_back(step);
  for (const auto& steps : took_part) CHECK(steps == wanted);
}

TEST_CASE("the timer is due by the time since the last checkpoint, and never when it is off") {
  using std::chrono::seconds;
  SaveTimer::Clock::time_point now{seconds(1'000'000)};
  SaveTimer timer(1.5, [&] { return now; });
  timer.saved();
  now += seconds(89);
  CHECK_FALSE(timer.due());
  now += seconds(1);
  CHECK(timer.due());
  CHECK(timer.due());  // until there is one
  timer.saved();
  CHECK_FALSE(timer.due());
  now += seconds(1000);
  CHECK(timer.due());
  SaveTimer off(0, [&] { return now; });
  off.saved();
  now += seconds(1'000'000);
  CHECK_FALSE(off.due());
}

}  // namespace
}  // namespace lockstep
