// What an optimizer, averaged weights and a communication hook keep is in the checkpoint: a killed
// run ends with the bits of one that was not.
#include "lockstep/tests/examples/trainer_process.h"

#include "lockstep/tests/support/temp_dir.h"

#include <doctest/doctest.h>
#include <signal.h>

namespace lockstep {
namespace {

using testing::run_trainer;

std::vector<std::string> arguments(const std::vector<std::string>& more, const std::string& dir) {
  std::vector<std::string> all = {
      "--nproc", "2", "--threads",          "1", "--batch-size", "64", "--epochs", "1",
      "--seed",  "5", "--checkpoint-every", "3", "--output-dir", dir,  "--resume", "auto"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

TEST_CASE("killed and resumed, with every optimizer's state") {
  const std::vector<std::vector<std::string>> cases = {
      {"--optimizer", "adamw", "--no-bias-decay", "--lr-scheduler", "one-cycle", "--ema-decay",
       "0.9", "--ema-warmup"},
      {"--optimizer", "adam", "--layer-drop", "0.5"},  // parameters that skip steps
      {"--optimizer", "lamb", "--lr-scheduler", "linear", "--clip-grad-norm", "1"},
      {"--dampening", "0.5", "--lr-scheduler", "polynomial", "--ema-decay", "0.99"},
      {"--comm-hook", "topk:ratio=0.1", "--bucket-cap-mb", "0.1"}};
  for (const std::vector<std::string>& flags : cases) {
    CAPTURE(flags[1]);
    const testing::TempDir dir;
    const auto whole = run_trainer(arguments(flags, dir / "whole"));
    REQUIRE_MESSAGE(whole->exit_code() == 0, whole->err());
    // The fourth rename is that of the first checkpoint, after run.json and two logs.
    const auto killed =
        run_trainer(arguments(flags, dir / "killed"),
                    {.env = {{"LOCKSTEP_FAILPOINT", "atomic_file.after_rename@4"}}});
    REQUIRE_MESSAGE(killed->exit_code() == 128 + SIGKILL, killed->err());
    const auto resumed = run_trainer(arguments(flags, dir / "killed"));
    REQUIRE_MESSAGE(resumed->exit_code() == 0, resumed->err());
    CHECK_MESSAGE(resumed->out().find("at step 3") != std::string::npos, resumed->out());
    for (const char* file : {"/last.safetensors", "/best.safetensors"}) {
      const std::string wanted = testing::read_text(dir / "whole" + file);
      CHECK(!wanted.empty());
      CHECK((testing::read_text(dir / "killed" + file) == wanted));
    }
  }
}

TEST_CASE("evaluation takes the averaged weights, training its own") {
  // An average that hardly moves from the weights after the first step: it has learnt nothing.
  const auto accuracy = [](std::vector<std::string> more) {
    std::vector<std::string> all = {"--threads", "1", "--batch-size", "32", "--epochs", "2"};
    all.insert(all.end(), more.begin(), more.end());
    const auto run = run_trainer(all);
    REQUIRE_MESSAGE(run->exit_code() == 0, run->err());
    const size_t at = run->out().find("epoch 2/2: test accuracy ");
    REQUIRE_MESSAGE(at != std::string::npos, run->out());
    return std::atof(run->out().c_str() + at + 25);
  };
  CHECK(accuracy({}) > 80);
  CHECK(accuracy({"--ema-decay", "0.9"}) > 80);
  CHECK(accuracy({"--ema-decay", "0.9999999"}) < 40);
}

TEST_CASE("another optimizer's checkpoint is refused") {
  const testing::TempDir dir;
  const std::vector<std::string> quick = {"--threads", "1",   "--batch-size", "64",
                                          "--epochs",  "1",   "--output-dir", dir / "run",
                                          "--resume",  "auto"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = quick;
    all.insert(all.end(), more.begin(), more.end());
    return run_trainer(all);
  };
  REQUIRE(with({})->exit_code() == 0);
  const auto other = with({"--optimizer", "adamw"});
  CHECK(other->exit_code() == 2);
  CHECK_MESSAGE(other->err().find("wanted --optimizer sgd as in the checkpoint, got adamw") !=
                    std::string::npos,
                other->err());
  CHECK(with({"--ema-decay", "0.9"})->err().find("--ema-decay") != std::string::npos);
}

}  // namespace
}  // namespace lockstep
