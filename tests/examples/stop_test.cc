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

/// Likewise, where ranks ask each other in every step, so that it is known in which one they stop.
std::vector<std::string> exact(const std::string& dir) {
  std::vector<std::string> words = arguments(dir);
  words.insert(words.end(), {"--agree-seconds", "0"});
  return words;
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
    const auto run = run_trainer(exact(dir / "run"), {.env = {{"LOCKSTEP_FAILPOINT", where}}});
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
    const auto run =
        run_trainer({"--nproc", nproc, "--threads", "1", "--epochs", "2", "--agree-seconds", "0"},
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

TEST_CASE("a run goes on with other ranks, if a step takes as many samples") {
  const testing::TempDir dir;
  const auto with = [&](const char* ranks, const char* batch) {
    std::vector<std::string> words = exact(dir / "run");
    words[1] = ranks;
    for (size_t k = 0; k < words.size(); ++k) {
      if (words[k] == "--batch-size") words[k + 1] = batch;
    }
    return words;
  };
  const auto stopped =
      run_trainer(with("3", "16"), {.env = {{"LOCKSTEP_FAILPOINT", "trainer.forward@7:term"}}});
  REQUIRE(stopped->exit_code() == kStopped);
  const auto refused = run_trainer(with("2", "16"));
  CHECK(refused->exit_code() == 2);
  CHECK_MESSAGE(
      contains(refused->err(),
               "wanted a global batch of 96 = 3 ranks x 16 x 2 as in the checkpoint, which "
               "lies within an epoch, got 64 = 2 ranks x 16 x 2; give --grad-accum-steps 3 or "
               "--batch-size "
               "24 or"),
      refused->err());
  const auto resumed = run_trainer(with("2", "24"));
  CHECK_MESSAGE(resumed->exit_code() == 0, resumed->out() << resumed->err());
  CHECK(contains(resumed->out(), "last.safetensors at step 5"));
  CHECK(contains(resumed->out(),
                 "global batch 96 = 2 ranks x 24 x 2 instead of 96 = 3 ranks x 16 x 2"));
}

TEST_CASE("killed at every sixth file, one command ends as if nothing had happened") {
  const testing::TempDir dir;
  std::vector<std::string> words = arguments(dir / "run");
  words.insert(words.end(), {"--max-restarts", "30"});
  const auto run =
      run_trainer(words, {.env = {{"LOCKSTEP_FAILPOINT", "atomic_file.after_rename@6"}}});
  REQUIRE_MESSAGE(run->exit_code() == 0, run->out() << run->err());
  CHECK(contains(run->err(), "lockstep: rank 0 was killed by signal 9 (Killed)"));
  CHECK(contains(run->err(), "lockstep: restart 2 of 30, with 3 ranks"));
  CHECK(testing::read_text(dir / "run/last.safetensors") == file_of_whole_run("last"));
  CHECK(testing::read_text(dir / "run/best.safetensors") == file_of_whole_run("best"));
  const auto wrong = run_trainer({"--nproc", "2", "--max-restarts", "1"});
  CHECK(wrong->exit_code() == 2);
  CHECK(contains(wrong->err(), "--max-restarts wants --resume auto"));
}

TEST_CASE("a disk that is full when it is asked to stop: it says so, and what was saved is whole") {
  const testing::TempDir dir;
  std::vector<std::string> words = exact(dir / "run");
  words.insert(words.end(), {"--checkpoint-every", "2", "--keep-checkpoints", "2"});
  const auto first =
      run_trainer(words, {.env = {{"LOCKSTEP_FAILPOINT", "trainer.forward@13:term"}}});
  REQUIRE(first->exit_code() == kStopped);
  const std::string last = testing::read_text(dir / "run/last.safetensors");
  const std::string kept = testing::read_text(dir / "run/step-6.safetensors");
  CHECK(stopped_step(*first, "SIGTERM") == 8);
  CHECK(testing::read_text(dir / "run/step-8.safetensors") == last);
  CHECK_FALSE(std::filesystem::exists(dir / "run/step-4.safetensors"));
  const auto full = run_trainer(words, {.env = {{"LOCKSTEP_FAILPOINT", "trainer.forward@1:term"}},
                                        .file_size_limit = 100'000});
  CHECK(full->exit_code() == 1);  // and not 143, after which a script would go on
  CHECK_MESSAGE(contains(full->err(), ".safetensors: cannot write"), full->err());
  CHECK(testing::read_text(dir / "run/last.safetensors") == last);
  CHECK(testing::read_text(dir / "run/step-6.safetensors") == kept);
  finish(dir / "run");
}

TEST_CASE("an output directory that is removed: one line, and a copy of it goes on") {
  const testing::TempDir dir;
  const std::string run_dir = dir / "run", copy = dir / "copy";
  std::vector<std::string> words = arguments(run_dir);
  words.insert(words.end(), {"--checkpoint-every", "2"});
  const auto run = start_trainer(words);
  REQUIRE(testing::eventually(
      [&] { return contains(testing::read_text(run_dir + "/metrics.jsonl"), "\"step\":4"); },
      testing::kDeadline));
  std::filesystem::create_directory(copy);
  std::filesystem::copy_file(run_dir + "/last.safetensors", copy + "/last.safetensors");
  // It may write a file meanwhile.
  REQUIRE(testing::eventually([&] {
    std::error_code ignored;
    std::filesystem::remove_all(run_dir, ignored);
    return !std::filesystem::exists(run_dir);
  }));
  REQUIRE(run->ends_within(testing::kDeadline));
  CHECK(run->exit_code() == 1);
  CHECK_MESSAGE(contains(run->err(), "the directory " + run_dir + " does not exist"), run->err());
  finish(copy);
}

}  // namespace
}  // namespace lockstep
