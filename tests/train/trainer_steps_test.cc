// Trainer: runs that end after a number of steps, and evaluations within an epoch.
#include "lockstep/tests/support/temp_dir.h"
#include "lockstep/tests/train/small_run.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <span>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

using testing::Outcome;
using testing::Setup;
using testing::TempDir;
using testing::train;

Checkpoint last_of(const std::string& dir) {
  const std::string bytes = testing::read_text(dir + "/last.safetensors");
  return parse_checkpoint(std::as_bytes(std::span(bytes)), dir);
}

/// Kind and step of the lines with a test loss.
std::vector<std::pair<std::string, int64_t>> evaluations(const std::string& dir) {
  std::vector<std::pair<std::string, int64_t>> found;
  std::ifstream in(dir + "/metrics.jsonl");
  for (std::string line; std::getline(in, line);) {
    const auto json = nlohmann::json::parse(line);
    if (json.contains("test_loss")) found.emplace_back(json["kind"], json["step"]);
  }
  return found;
}

TEST_CASE("a run of so many steps ends within an epoch, evaluated and saved, and can go on") {
  const TempDir dir;
  // 22 steps an epoch.
  Setup setup{.dir = dir / "run", .max_steps = 10};
  const Outcome first = train(setup);
  CHECK(first.result.position == Position{.step = 10, .epoch = 0, .batch = 10});
  CHECK(last_of(setup.dir).position == first.result.position);
  CHECK(evaluations(setup.dir) == std::vector<std::pair<std::string, int64_t>>{{"evaluation", 10}});
  CHECK(first.result.test_accuracy > 0);

  setup.resume = true;
  const Outcome again = train(setup);
  CHECK(again.resumed_step == 10);
  CHECK(again.result.position == first.result.position);
  CHECK(again.result.test_loss == first.result.test_loss);

  setup.max_steps = first.steps_per_epoch + 3;
  const Outcome more = train(setup);
  CHECK(more.result.position == Position{.step = setup.max_steps, .epoch = 1, .batch = 3});
  CHECK(evaluations(setup.dir) ==
        std::vector<std::pair<std::string, int64_t>>{
            {"evaluation", 10}, {"epoch", first.steps_per_epoch}, {"evaluation", setup.max_steps}});
}

TEST_CASE("the last step may be the last of an epoch") {
  const TempDir dir;
  Setup setup{.checkpoint_every = 11, .dir = dir / "run", .max_steps = 22};
  const Outcome outcome = train(setup);
  REQUIRE(outcome.steps_per_epoch == 22);
  CHECK(outcome.result.position == Position{.step = 22, .epoch = 1, .batch = 0});
  CHECK(evaluations(setup.dir) == std::vector<std::pair<std::string, int64_t>>{{"epoch", 22}});
}

TEST_CASE("evaluations within epochs, and a crash between them") {
  const TempDir dir;
  for (const BestBy best_by : {BestBy::kAccuracy, BestBy::kLoss}) {
    const std::string name = best_by == BestBy::kLoss ? "loss" : "accuracy";
    Setup setup{.ranks = 3,
                .checkpoint_every = 4,
                .dir = dir / ("whole" + name),
                .max_steps = 34,
                .evaluate_every = 6,
                .evaluate_first = true,
                .best_by = best_by};
    const Outcome whole = train(setup);
    const int64_t epoch = whole.steps_per_epoch;
    REQUIRE(epoch == 14);
    const std::vector<std::pair<std::string, int64_t>> wanted = {
        {"evaluation", 0}, {"evaluation", 6},  {"evaluation", 12},
        {"epoch", 14},     {"evaluation", 18}, {"evaluation", 24},
        {"epoch", 28},     {"evaluation", 30}, {"evaluation", 34}};
    CHECK(evaluations(setup.dir) == wanted);
    CHECK(whole.result.first_loss.value_or(0) > whole.result.test_loss);
    CHECK(last_of(setup.dir).best_loss.has_value() == (best_by == BestBy::kLoss));

    setup.dir = dir / ("crash" + name);
    for (const int64_t crash : {19, 9}) {  // 9 more after those that were done
      setup.crash_at_batch = crash;
      CHECK_THROWS_AS(train(setup), Error);
      setup.resume = true;
    }
    setup.crash_at_batch = -1;
    const Outcome resumed = train(setup);
    CHECK(resumed.resumed_step >= 24);
    CHECK(!resumed.result.first_loss.has_value());
    for (const char* file : {"/last.safetensors", "/best.safetensors"}) {
      CHECK(testing::read_text(setup.dir + file) ==
            testing::read_text((dir / ("whole" + name)) + file));
    }
    CHECK(evaluations(setup.dir) == wanted);
    CHECK(testing::losses(setup.dir) == testing::losses(dir / ("whole" + name)));
  }
}

}  // namespace
}  // namespace lockstep
