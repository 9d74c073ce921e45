// A trainer that is asked to stop, at any moment and on any rank, saves, says so by its exit code,
// and goes on later as if nothing had happened.
#include "lockstep/base/str.h"
#include "lockstep/tests/examples/trainer_process.h"
#include "lockstep/tests/support/eventually.h"
#include "lockstep/tests/support/temp_dir.h"

#include <doctest/doctest.h>
#include <signal.h>

#include <filesystem>
#include <random>

namespace lockstep {
namespace {

using testing::Process;
using testing::run_program;
using testing::run_trainer;
using testing::start_trainer;

constexpr int kStopped = 128 + SIGTERM, kTimeUp = 128 + SIGUSR1;

std::vector<std::string> arguments(const std::string& dir) {
  return {"--nproc",
          "3",
          "--bucket-cap-mb",
          "0.1",
          "--threads",
          "1",
          "--model",
          "resnet8",
          "--batch-size",
          "16",
          "--epochs",
          "2",
          "--grad-accum-steps",
          "2",
          "--evaluate-every",
          "6",
          "--log-interval",
          "4",
          "--seed",
          "5",
          "--output-dir",
          dir,
          "--resume",
          "auto"};
}

const std::string& file_of_whole_run(const char* name) {
  static const testing::TempDir dir;
  static std::string last, best;
  if (last.empty()) {
    const auto run = run_trainer(arguments(dir / "run"));
    REQUIRE_MESSAGE(run->exit_code() == 0, run->out() << run->err());
    last = testing::read_text(dir / "run/last.safetensors");
    best = testing::read_text(dir / "run/best.safetensors");
    REQUIRE(!last.empty());
  }
  return std::string(name) == "last" ? last : best;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != text.npos;
}

void finish(const std::string& dir) {
  const auto run = run_trainer(arguments(dir));
  REQUIRE_MESSAGE(run->exit_code() == 0, run->out() << run->err());
  CHECK_MESSAGE(contains(run->out(), "resumed from "), run->out());
  CHECK(testing::read_text(dir + "/last.safetensors") == file_of_whole_run("last"));
  CHECK(testing::read_text(dir + "/best.safetensors") == file_of_whole_run("best"));
}

/// The step of "stopped by SIGTERM at step N; ...".
int stopped_step(const Process& run, const char* signal) {
  const std::string words = str("stopped by ", signal, " at step ");
  const size_t at = run.err().find(words);
  REQUIRE_MESSAGE(at != std::string::npos, run.out() << run.err());
  return std::atoi(run.err().c_str() + at + words.size());
}

TEST_CASE("signals at named points: forward, backward, a save, an evaluation") {
  struct Point {
    const char* where;
    const char* signal;
    int exit_code;
    int step;  // at which it stops
  };
  // Two micro-batches in a step; each evaluation has two batches on every rank, and saves.
  for (const auto& [where, signal, exit_code, step] : {
           Point{"trainer.forward@7:term", "SIGTERM", kStopped, 5},
           Point{"trainer.forward@8:usr1", "SIGUSR1", kTimeUp, 5},
           Point{"trainer.backward@10:term", "SIGTERM", kStopped, 6},  // where one is due
           Point{"trainer.evaluation@1:term", "SIGTERM", kStopped, 6},
           Point{"atomic_file.after_write@12:usr1", "SIGUSR1", kTimeUp, 6},  // of the first save
       }) {
    CAPTURE(where);
    const testing::TempDir dir;
    const auto run = run_trainer(arguments(dir / "run"), {.env = {{"LOCKSTEP_FAILPOINT", where}}});
    CHECK_MESSAGE(run->exit_code() == exit_code, run->out() << run->err());
    CHECK(stopped_step(*run, signal) == step);
    CHECK(contains(run->err(), "last.safetensors is kept; the same command goes on"));
    CHECK_FALSE(contains(run->out(), " at best"));  // which would say that it is done
    finish(dir / "run");
  }
}

TEST_CASE("one rank alone is asked, by way of another launcher, or the launcher at any moment") {
  const unsigned seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (int k = 0; k < 3; ++k) {
    CAPTURE(k);
    const testing::TempDir dir;
    const auto run = start_trainer(arguments(dir / "run"));
    REQUIRE(testing::eventually(
        [&] { return contains(testing::read_text(dir / "run/metrics.jsonl"), "\"step\":4"); },
        testing::kDeadline));
    run->ends_within(std::chrono::milliseconds(random() % 300));
    const std::vector<pid_t> ranks = run->children();
    // A rank, or all by the launcher; there may be none left in a fast run.
    const pid_t asked = k == 0 || ranks.empty() ? run->pid() : ranks[random() % ranks.size()];
    ::kill(asked, SIGTERM);
    REQUIRE(run->ends_within(testing::kDeadline));
    if (run->exit_code() == 0) continue;
    CHECK_MESSAGE(run->exit_code() == kStopped, run->out() << run->err());
    CHECK(stopped_step(*run, "SIGTERM") > 0);
    finish(dir / "run");
  }
}

TEST_CASE("without an output directory it says that nothing is kept; alone it stops as well") {
  for (const char* nproc : {"1", "2"}) {
    const auto run = run_trainer({"--nproc", nproc, "--threads", "1", "--epochs", "2"},
                                 {.env = {{"LOCKSTEP_FAILPOINT", "trainer.forward@3:term"}}});
    CHECK(run->exit_code() == kStopped);
    CHECK(
        contains(run->err(), "stopped by SIGTERM at step 4; nothing is kept without --output-dir"));
  }
}

TEST_CASE("before training has begun a signal ends the run at once; Ctrl-C always does") {
  const testing::TempDir dir;
  const auto early = run_trainer(arguments(dir / "early"),
                                 {.env = {{"LOCKSTEP_FAILPOINT", "atomic_file.after_write:term"}}});
  CHECK(early->exit_code() == kStopped);
  const auto run = start_trainer(arguments(dir / "run"));
  REQUIRE(testing::eventually(
      [&] { return contains(testing::read_text(dir / "run/metrics.jsonl"), "\"step\":4"); },
      testing::kDeadline));
  ::kill(run->pid(), SIGINT);
  REQUIRE(run->ends_within(testing::kDeadline));
  CHECK(run->exit_code() == 128 + SIGINT);
  CHECK_FALSE(contains(run->err(), "stopped by"));
}

}  // namespace
}  // namespace lockstep
