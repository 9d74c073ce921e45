// Trainer: a gradient that is not finite on one rank, and what becomes of its step on all.
#include "lockstep/tests/support/temp_dir.h"
#include "lockstep/tests/train/small_run.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <span>

namespace lockstep {
namespace {

using testing::Setup;
using testing::train;

Checkpoint checkpoint_of(const std::string& path) {
  const std::string bytes = testing::read_text(path);
  return parse_checkpoint(std::as_bytes(std::span(bytes)), path);
}

bool same(const std::vector<NamedTensor>& a, const std::vector<NamedTensor>& b) {
  return std::equal(
      a.begin(), a.end(), b.begin(), b.end(), [](const NamedTensor& x, const NamedTensor& y) {
        return x.name == y.name && x.tensor.nbytes() == y.tensor.nbytes() &&
               std::equal(x.tensor.raw(), x.tensor.raw() + x.tensor.nbytes(), y.tensor.raw());
      });
}

std::vector<double> skipped_in(const std::string& dir) {
  std::vector<double> values;
  std::ifstream in(dir + "/metrics.jsonl");
  for (std::string line; std::getline(in, line);) {
    const auto json = nlohmann::json::parse(line);
    if (json["kind"] == "train") values.push_back(json.value("skipped_steps", -1.0));
  }
  return values;
}

TEST_CASE("by default training ends on every rank, and says which gradient, whose, and when") {
  for (const int64_t accumulate : {int64_t{1}, int64_t{2}}) {
    CAPTURE(accumulate);
    const testing::TempDir dir;
    // In the step's last micro-batch or one before.
    const Setup setup{.ranks = 3,
                      .accumulate = accumulate,
                      .dir = dir / "run",
                      .spoil_rank = 1,
                      .spoil_from = 4 * accumulate,
                      .spoil_to = 4 * accumulate + 1};
    CHECK_THROWS_WITH_AS(train(setup),
                         doctest::Contains("not finite at step 5: the gradient of conv.weight, "
                                           "first on rank 1; lower --lr"),
                         Error);
    CHECK(checkpoint_of(dir / "run/last.safetensors").position.step == 4);
  }
}

TEST_CASE("skip: the step leaves no trace, and is counted") {
  const testing::TempDir dir;
  Setup setup{.ranks = 3,
              .epochs = 1,
              .checkpoint_every = 1,
              .dir = dir / "run",
              .spoil_rank = 2,
              .spoil_from = 4,
              .spoil_to = 6,
              .nonfinite = {.action = OnNonfinite::kSkip},
              .keep_checkpoints = 100};
  train(setup);
  const auto at = [&](int step) {
    return checkpoint_of(dir / str("run/step-", step, ".safetensors"));
  };
  const Checkpoint before = at(4), after = at(6), later = at(7);
  CHECK(after.position.step == 6);
  CHECK(after.skipped_steps == 2);
  CHECK(same(before.model, after.model));  // with the running statistics
  CHECK(same(before.optimizer.tensors, after.optimizer.tensors));
  CHECK_FALSE(same(before.model, later.model));
  CHECK(skipped_in(setup.dir) ==
        std::vector<double>{0, 2, 2, 2, 2});  // every third step, and the last
  // The count goes on after a resume.
  setup.spoil_rank = -1;
  setup.resume = true;
  setup.epochs = 2;
  train(setup);
  CHECK(checkpoint_of(dir / "run/last.safetensors").skipped_steps == 2);
}

TEST_CASE("skip, with a last batch that is not full: a run that died goes on to the same bits") {
  const testing::TempDir dir;
  // 1,438 images: 3 x 479 and 1, 4 x 359 and 2. Of the last batch the first ranks have none.
  for (const auto& [ranks, batch] : {std::pair{3, 479}, {4, 359}}) {
    for (const LastBatch last : {LastBatch::kDrop, LastBatch::kPad, LastBatch::kKeep}) {
      CAPTURE(ranks);
      CAPTURE(static_cast<int>(last));
      const std::string name = str("run", ranks, "-", static_cast<int>(last));
      // In the fourth step, which is a last batch but for kDrop.
      Setup setup{.ranks = ranks,
                  .batch_size = batch,
                  .epochs = 4,
                  .last_batch = last,
                  .checkpoint_every = 1,
                  .dir = dir / name,
                  .spoil_rank = 0,
                  .spoil_from = 3,
                  .spoil_to = 4,
                  .nonfinite = {.action = OnNonfinite::kSkip}};
      CHECK(train(setup).steps_per_epoch == (last == LastBatch::kDrop ? 1 : 2));
      const Checkpoint whole = checkpoint_of(dir / (name + "/last.safetensors"));
      CHECK(whole.skipped_steps == 1);

      setup.dir = dir / (name + "-dies");
      // In the third step, of rank 0's batches that are not empty.
      setup.crash_at_batch = last == LastBatch::kKeep ? 1 : 2;
      CHECK_THROWS_WITH_AS(train(setup), doctest::Contains("crash"), Error);
      setup.crash_at_batch = -1;
      setup.resume = true;
      setup.spoil_from = 1;  // counted from where it goes on
      setup.spoil_to = 2;
      CHECK(train(setup).resumed_step == 2);
      const Checkpoint resumed = checkpoint_of(dir / (name + "-dies/last.safetensors"));
      CHECK(resumed.skipped_steps == 1);
      CHECK(same(resumed.model, whole.model));
      CHECK(same(resumed.optimizer.tensors, whole.optimizer.tensors));
    }
  }
}

TEST_CASE("skip: many in a row are an error") {
  const testing::TempDir dir;
  Setup setup{.ranks = 3,
              .dir = dir / "run",
              .spoil_rank = 0,
              .spoil_from = 5,
              .spoil_to = 1000,
              .nonfinite = {.action = OnNonfinite::kSkip, .most_in_a_row = 4}};
  CHECK_THROWS_WITH_AS(train(setup),
                       doctest::Contains("not finite at step 9: the gradient of conv.weight, first "
                                         "on rank 0; so were the 3 steps before"),
                       Error);
  // Not in a row: 3 and 3.
  setup.dir = dir / "other";
  setup.epochs = 1;
  setup.nonfinite.most_in_a_row = 10;
  setup.spoil_to = 8;
  CHECK_NOTHROW(train(setup));
}

TEST_CASE("ignore: the loss tells, later, and not whose it was") {
  const testing::TempDir dir;
  const Setup setup{.ranks = 3,
                    .dir = dir / "run",
                    .spoil_rank = 1,
                    .spoil_from = 4,
                    .spoil_to = 5,
                    .nonfinite = {.action = OnNonfinite::kIgnore}};
  CHECK_THROWS_WITH_AS(train(setup), doctest::Contains("training diverged: the loss is"), Error);
}

TEST_CASE("one process alone looks at all of its gradients, if it is to skip") {
  const testing::TempDir dir;
  const Setup setup{.ranks = 1,
                    .epochs = 1,
                    .dir = dir / "run",
                    .spoil_rank = 0,
                    .spoil_from = 4,
                    .spoil_to = 5,
                    .nonfinite = {.action = OnNonfinite::kSkip, .look_at_all = true}};
  train(setup);
  CHECK(checkpoint_of(dir / "run/last.safetensors").skipped_steps == 1);
}

}  // namespace
}  // namespace lockstep
