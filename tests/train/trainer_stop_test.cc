// Trainer: stopped by a signal that one rank gets, it goes on later as if it had not been; and
// checkpoints by the clock.
#include "lockstep/tests/support/temp_dir.h"
#include "lockstep/tests/train/small_run.h"
#include "lockstep/train/kept_checkpoints.h"

#include <doctest/doctest.h>

#include <csignal>
#include <set>

namespace lockstep {
namespace {

using testing::losses;
using testing::Outcome;
using testing::Setup;
using testing::train;

/// Stops `setup`'s run, of which `whole` has been trained, goes on, and compares. Returns the step
/// at which it stopped.
int64_t stop_and_go_on(Setup setup, const std::string& whole) {
  const Outcome stopped = train(setup);
  REQUIRE(stopped.result.stopped_by == SIGTERM);
  setup.ask_rank = -1;
  setup.resume = true;
  const Outcome resumed = train(setup);
  CHECK(resumed.result.stopped_by == 0);
  CHECK(resumed.resumed_step == stopped.result.position.step);
  for (const char* file : {"/last.safetensors", "/best.safetensors"}) {
    CHECK(testing::read_text(setup.dir + file) == testing::read_text(whole + file));
  }
  CHECK(losses(setup.dir) == losses(whole));
  return resumed.resumed_step;
}

TEST_CASE("a signal to one of three ranks stops all after the next step, and resume is bitwise") {
  for (const int64_t accumulate : {int64_t{1}, int64_t{4}}) {
    CAPTURE(accumulate);
    const testing::TempDir dir;
    Setup setup{.ranks = 3, .accumulate = accumulate, .checkpoint_every = 0, .dir = dir / "whole"};
    const Outcome whole = train(setup);
    const int64_t batches = 1437 / 96;  // of an epoch
    for (const int rank : {0, 2}) {
      CAPTURE(rank);
      setup.ask_rank = rank;
      // In mid-epoch, in one micro-batch or another of a step; and across the end of an epoch.
      for (const int64_t batch : {int64_t{5}, int64_t{7}, batches - 1, batches + 1}) {
        CAPTURE(batch);
        setup.dir = dir / str("stop", rank, "-", batch);
        setup.ask_at_batch = batch;
        // Heard at the beginning of the step after the one in which it came, but at the end of an
        // epoch, whose evaluation asks.
        const int64_t in_epoch = batch % batches / accumulate, epoch = batch / batches;
        const bool last = in_epoch + 1 == whole.steps_per_epoch;
        const int64_t wanted = epoch * whole.steps_per_epoch + in_epoch + (last ? 1 : 2);
        CHECK(stop_and_go_on(setup, dir / "whole") == wanted);
      }
    }
  }
}

TEST_CASE("a signal in an evaluation stops right after it; one that is due comes after resuming") {
  const testing::TempDir dir;
  Setup setup{.ranks = 3,
              .epochs = 2,
              .checkpoint_every = 0,
              .dir = dir / "whole",
              .evaluate_every = 4,
              .best_by = BestBy::kLoss};
  train(setup);
  setup.ask_rank = 1;
  setup.dir = dir / "evaluation";
  setup.ask_at_test_batch = 2;  // of the second evaluation: each has two batches
  CHECK(stop_and_go_on(setup, dir / "whole") == 8);
  setup.ask_at_test_batch = -1;
  for (const int64_t batch : {2, 5, 6}) {
    setup.dir = dir / str("due", batch);
    setup.ask_at_batch = batch;
    CHECK(stop_and_go_on(setup, dir / "whole") == batch + 2);
  }
  CHECK(testing::read_text(dir / "whole/metrics.jsonl").find("evaluation") != std::string::npos);
}

TEST_CASE("a signal in the last step of all is no reason to stop") {
  const testing::TempDir dir;
  Setup setup{.ranks = 3, .epochs = 1, .dir = dir / "run", .ask_rank = 1, .ask_at_batch = 13};
  const Outcome outcome = train(setup);
  CHECK(outcome.result.stopped_by == 0);
  CHECK(outcome.result.position == Position{.step = 14, .epoch = 1, .batch = 0});
}

TEST_CASE("stopped before the last evaluation, it is made up for") {
  const testing::TempDir dir;
  Setup setup{.ranks = 3, .checkpoint_every = 0, .dir = dir / "whole", .max_steps = 9};
  train(setup);
  setup.dir = dir / "stopped";
  setup.ask_rank = 1;
  setup.ask_at_batch = 7;
  CHECK(stop_and_go_on(setup, dir / "whole") == 9);
}

TEST_CASE("checkpoints by the minute: rank 0's clock counts, and a checkpoint for another reason") {
  using std::chrono::seconds;
  const testing::TempDir dir;
  Setup setup{.ranks = 3,
              .epochs = 1,
              .checkpoint_every = 0,
              .dir = dir / "run",
              .checkpoint_minutes = 1,
              .keep_checkpoints = 100};
  // It is read once a step and once a checkpoint; the others' clocks do not matter.
  setup.clock = [](int rank) -> SaveTimer::Now {
    return [rank, now = SaveTimer::Clock::time_point(seconds(5))]() mutable {
      return now += seconds(rank == 0 ? 16 : 1000);
    };
  };
  train(setup);
  const std::vector<int64_t> saved = kept_checkpoints(setup.dir);
  // 16, 32, 48, 64 seconds: due when the fourth step begins, and on from there.
  CHECK(saved == std::vector<int64_t>{4, 8, 12, 14});
  setup.dir = dir / "both";
  setup.checkpoint_every = 3;  // before it is due
  train(setup);
  CHECK(kept_checkpoints(setup.dir) == std::vector<int64_t>{3, 6, 9, 12, 14});
  setup.dir = dir / "few";
  setup.keep_checkpoints = 2;
  train(setup);
  CHECK(kept_checkpoints(setup.dir) == std::vector<int64_t>{12, 14});
}

}  // namespace
}  // namespace lockstep
