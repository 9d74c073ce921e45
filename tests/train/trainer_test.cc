// Trainer: metrics, accumulation, and how a run ends.
#include "lockstep/data/datasets.h"
#include "lockstep/tests/support/temp_dir.h"
#include "lockstep/tests/train/small_run.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <span>

namespace lockstep {
namespace {

using testing::Crash;
using testing::losses;
using testing::Outcome;
using testing::Setup;
using testing::train;

TEST_CASE("metrics say how many bytes a step sent") {
  const testing::TempDir dir;
  const auto bytes_of = [&](const std::string& hook) {
    const Setup setup{.epochs = 1, .dir = dir / ("run" + hook), .comm_hook = hook};
    train(setup);
    std::ifstream in(setup.dir + "/metrics.jsonl");
    std::string line;
    std::getline(in, line);
    return nlohmann::json::parse(line)["comm_bytes"].get<double>();
  };
  // norm 1 + 1, conv 16 * 25 + 16, fc 160 + 10 elements.
  CHECK(bytes_of("") == 4 * 588);
  CHECK(bytes_of("topk:ratio=0.05") == 8 * (1 + 1 + 20 + 1 + 8 + 1));
  // With the padding to 64 elements.
  CHECK(bytes_of("bf16") == 2 * (64 + 64 + 448 + 64 + 192 + 64));
}

TEST_CASE("the metrics of a resumed run hold each interval and each epoch once") {
  const testing::TempDir dir;
  Setup setup{.dir = dir / "run", .crash_at_batch = 33};
  CHECK_THROWS_AS(train(setup), Error);
  setup.crash_at_batch = -1;
  setup.resume = true;
  const Outcome outcome = train(setup);
  std::multiset<int64_t> steps, epochs;
  std::ifstream in(setup.dir + "/metrics.jsonl");
  for (std::string line; std::getline(in, line);) {
    const auto json = nlohmann::json::parse(line);
    if (json["kind"] == "epoch") {
      epochs.insert(json["epoch"].get<int64_t>());
      CHECK(json["test_samples"] == digits(Split::kTest)->size());
    } else {
      steps.insert(json["step"].get<int64_t>());
      CHECK(json["loss"].get<double>() > 0);
    }
  }
  CHECK(epochs == std::multiset<int64_t>{0, 1, 2});
  std::multiset<int64_t> wanted;
  for (int64_t step = 1; step <= outcome.result.position.step; ++step) {
    if (step % 3 == 0 || step % outcome.steps_per_epoch == 0) wanted.insert(step);
  }
  CHECK(steps == wanted);
}

TEST_CASE("accumulation over 4 micro-batches equals one batch of their size") {
  const testing::TempDir dir;
  // 1438 samples make 44 small global batches or 11 large ones: no group is short.
  const Setup large{.batch_size = 64, .epochs = 4, .lr = 0.2, .dir = dir / "large", .plain = true};
  Setup small = large;
  small.batch_size = 16;
  small.accumulate = 4;
  small.dir = dir / "small";
  const Outcome a = train(large), b = train(small);
  CHECK(a.result.position.step == b.result.position.step);
  // The sums are the same in another order.
  CHECK(b.result.test_loss == doctest::Approx(a.result.test_loss).epsilon(1e-4));
  CHECK(a.result.test_loss < 2.2);  // and something was learned
}

TEST_CASE("a short last group is a step of its own, and synchronises") {
  const testing::TempDir dir;
  const Outcome outcome =
      train({.batch_size = 64, .epochs = 2, .accumulate = 4, .dir = dir / "run", .plain = true});
  CHECK(outcome.steps_per_epoch == 3);  // 11 batches
  CHECK(outcome.result.position.step == 6);
}

TEST_CASE("a short group is averaged over the micro-batches that it has") {
  const testing::TempDir dir;
  // The 11 batches of an epoch are one group: a full one, or what there is of one of 20.
  Setup setup{.batch_size = 64, .accumulate = 11, .lr = 0.2, .dir = dir / "full", .plain = true};
  const Outcome full = train(setup);
  setup.accumulate = 20;
  setup.dir = dir / "cut";
  const Outcome cut = train(setup);
  CHECK(cut.result.position.step == full.result.position.step);
  CHECK(cut.result.test_loss == full.result.test_loss);
}

TEST_CASE("a loss that is no longer a number ends the run") {
  const testing::TempDir dir;
  try {
    train({.lr = 1e30, .dir = dir / "run"});
    FAIL("went on");
  } catch (const Error& error) {
    CHECK(std::string(error.what()).find("diverged") != std::string::npos);
  }
}

TEST_CASE("a run that has diverged leaves the checkpoint of before") {
  const testing::TempDir dir;
  CHECK_THROWS_AS(
      train({.log_interval = 1000, .checkpoint_every = 1, .lr = 1e30, .dir = dir / "run"}), Error);
  const std::string file = dir / "run/last.safetensors";
  const std::string bytes = testing::read_text(file);
  const Checkpoint left =
      parse_checkpoint(std::as_bytes(std::span(bytes.data(), bytes.size())), file);
  for (const double sum : left.meter.to_vector<double>()) CHECK(std::isfinite(sum));
}

}  // namespace
}  // namespace lockstep
