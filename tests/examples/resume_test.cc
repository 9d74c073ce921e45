// Killed at any moment, a run goes on from its last checkpoint and ends as if nothing had happened.
#include "lockstep/tests/examples/trainer_process.h"

#include "lockstep/tests/support/temp_dir.h"

#include <doctest/doctest.h>
#include <signal.h>

#include <filesystem>
#include <random>
#include <thread>

namespace lockstep {
namespace {

using testing::Process;
using testing::run_trainer;
using testing::start_trainer;

constexpr int kKilled = 128 + SIGKILL;

std::vector<std::string> arguments(int ranks, const std::string& dir) {
  return {"--nproc",
          std::to_string(ranks),
          "--bucket-cap-mb",
          "0.1",
          "--first-bucket-cap-mb",
          "0.01",
          "--threads",
          "1",
          "--model",
          "resnet8",
          "--batch-size",
          std::to_string(128 / ranks),
          "--epochs",
          "2",
          "--warmup-steps",
          "3",
          "--seed",
          "5",
          "--checkpoint-every",
          "2",
          "--output-dir",
          dir,
          "--resume",
          "auto"};
}

/// The step that the output says it went on from; 0 for a fresh start.
int resumed_step(const std::string& out) {
  const size_t at = out.find("resumed from ");
  if (at == out.npos) return 0;
  return std::atoi(out.c_str() + out.find("at step ", at) + 8);
}

struct Baseline {
  testing::TempDir dir;
  std::string last, best;
  std::chrono::milliseconds duration{};
};

/// The uninterrupted run, trained once for each number of ranks.
const Baseline& baseline(int ranks) {
  static std::unique_ptr<Baseline> known[4];
  std::unique_ptr<Baseline>& b = known[ranks];
  if (b) return *b;
  b = std::make_unique<Baseline>();
  const auto begin = std::chrono::steady_clock::now();
  const auto run = run_trainer(arguments(ranks, b->dir / "run"));
  b->duration = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - begin);
  REQUIRE_MESSAGE(run->exit_code() == 0, run->err());
  b->last = testing::read_text(b->dir / "run/last.safetensors");
  b->best = testing::read_text(b->dir / "run/best.safetensors");
  REQUIRE(!b->last.empty());
  return *b;
}

/// Goes on with the run in `dir` to its end and compares.
void finish(int ranks, const std::string& dir, bool must_resume) {
  const auto run = run_trainer(arguments(ranks, dir));
  REQUIRE_MESSAGE(run->exit_code() == 0, run->err());
  if (must_resume) CHECK_MESSAGE(resumed_step(run->out()) > 0, run->out());
  CHECK(testing::read_text(dir + "/last.safetensors") == baseline(ranks).last);
  CHECK(testing::read_text(dir + "/best.safetensors") == baseline(ranks).best);
}

TEST_CASE("killed at failpoints around write, fsync and rename") {
  for (const int ranks : {1, 2}) {
    for (const char* point : {"atomic_file.after_write@150", "atomic_file.before_fsync@5",
                              "atomic_file.before_rename@5", "atomic_file.after_rename@5",
                              "atomic_file.before_rename@8", "atomic_file.after_rename@8"}) {
      CAPTURE(ranks);
      CAPTURE(point);
      const testing::TempDir dir;
      const auto run =
          run_trainer(arguments(ranks, dir / "run"), {.env = {{"LOCKSTEP_FAILPOINT", point}}});
      REQUIRE_MESSAGE(run->exit_code() == kKilled, run->out() << run->err());
      finish(ranks, dir / "run", /*must_resume=*/true);
    }
  }
}

// Three ranks: with two, the bits do not depend on how the gradients travel.
TEST_CASE("killed before and after the buckets were planned anew") {
  const std::string plan = testing::read_text(baseline(3).dir / "run/bucket_plan.json");
  REQUIRE(!plan.empty());
  for (const char* point : {
           "atomic_file.before_rename@1",  // run.json, before the first step; then two logs
           "atomic_file.before_rename@4",  // the first checkpoint, after two steps
           "atomic_file.after_rename@4",
           "atomic_file.before_rename@5",  // bucket_plan.json
           "atomic_file.after_rename@9",
       }) {
    CAPTURE(point);
    const testing::TempDir dir;
    const auto run =
        run_trainer(arguments(3, dir / "run"), {.env = {{"LOCKSTEP_FAILPOINT", point}}});
    REQUIRE_MESSAGE(run->exit_code() == kKilled, run->out() << run->err());
    finish(3, dir / "run", /*must_resume=*/std::filesystem::exists(dir / "run/last.safetensors"));
    CHECK(testing::read_text(dir / "run/bucket_plan.json") == plan);
  }
}

TEST_CASE("what a communication hook holds back goes on too, on every rank") {
  const testing::TempDir dir;
  const auto run_in = [&](const char* name, const testing::ProcessOptions& options) {
    std::vector<std::string> words = arguments(3, dir / name);
    words.insert(words.end(), {"--comm-hook", "topk:ratio=0.05"});
    return run_trainer(words, options);
  };
  const auto whole = run_in("whole", {});
  REQUIRE_MESSAGE(whole->exit_code() == 0, whole->out() << whole->err());
  const auto cut = run_in("cut", {.env = {{"LOCKSTEP_FAILPOINT", "atomic_file.after_rename@4"}}});
  REQUIRE_MESSAGE(cut->exit_code() == kKilled, cut->out() << cut->err());
  const auto rest = run_in("cut", {});
  REQUIRE_MESSAGE(rest->exit_code() == 0, rest->out() << rest->err());
  CHECK(resumed_step(rest->out()) > 0);
  CHECK(testing::read_text(dir / "cut/last.safetensors") ==
        testing::read_text(dir / "whole/last.safetensors"));
}

TEST_CASE("killed at random moments, again and again") {
  const unsigned seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (const int ranks : {1, 2}) {
    CAPTURE(ranks);
    const auto duration = static_cast<double>(baseline(ranks).duration.count());
    const testing::TempDir dir;
    const std::string run_dir = dir / "run";
    for (int kills = 0; kills < 5;) {
      const auto run = start_trainer(arguments(ranks, run_dir));
      const double delay = std::uniform_real_distribution<>(0.05, 0.8)(random) * duration;
      if (run->ends_within(std::chrono::milliseconds(static_cast<int>(delay)))) {
        REQUIRE_MESSAGE(run->exit_code() == 0, run->err());
        std::filesystem::remove_all(run_dir);  // finished before its time: once more from the start
        continue;
      }
      // The launcher or one of the ranks; whichever it is, all end.
      std::vector<pid_t> victims = run->children();
      if (ranks == 1) victims.clear();
      victims.push_back(run->pid());
      ::kill(victims[random() % victims.size()], SIGKILL);
      REQUIRE(run->ends_within(testing::kDeadline));
      if (run->exit_code() == 0) {  // it was done just before the signal came
        std::filesystem::remove_all(run_dir);
        continue;
      }
      CHECK_MESSAGE(run->exit_code() == kKilled, run->out() << run->err());
      ++kills;
    }
    finish(ranks, run_dir, std::filesystem::exists(run_dir + "/last.safetensors"));
  }
}

TEST_CASE("a resumed run may take another learning rate") {
  const testing::TempDir dir;
  const auto train = [&](const char* epochs, const char* lr) {
    const auto run = run_trainer({"--threads", "1", "--batch-size", "128", "--lr-scheduler",
                                  "constant", "--warmup-steps", "0", "--resume", "auto",
                                  "--output-dir", dir / "run", "--epochs", epochs, "--lr", lr});
    REQUIRE_MESSAGE(run->exit_code() == 0, run->err());
    return testing::read_text(dir / "run/metrics.jsonl");
  };
  CHECK(train("1", "0.125").find("\"lr\":0.125") != std::string::npos);
  CHECK(train("2", "0.0625").find("\"lr\":0.0625") != std::string::npos);
}

}  // namespace
}  // namespace lockstep
