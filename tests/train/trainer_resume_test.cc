// Trainer: crashes, checkpoints, and going on.
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

TEST_CASE("a run that crashes and resumes ends with the same bytes as one that does not") {
  for (const int ranks : {1, 2, 3}) {
    for (const int64_t accumulate : {int64_t{1}, int64_t{4}}) {
      CAPTURE(ranks);
      CAPTURE(accumulate);
      const testing::TempDir dir;
      Setup setup{.ranks = ranks,
                  .accumulate = accumulate,
                  .checkpoint_every = accumulate == 1 ? 4 : 1,
                  .dir = dir / "whole"};
      const Outcome whole = train(setup);
      CHECK(whole.result.position.step == 3 * whole.steps_per_epoch);
      const auto epoch_batches = 1500 / (32 * ranks);
      int64_t last_resumed = -1;
      for (const int64_t crash : {int64_t{epoch_batches / 2}, int64_t{2 * epoch_batches - 9}}) {
        setup.dir = dir / str("crash", crash);
        setup.crash_at_batch = crash;
        CHECK_THROWS_AS(train(setup), Error);
        setup.crash_at_batch = -1;
        setup.resume = true;
        const Outcome resumed = train(setup);
        setup.resume = false;
        CHECK(resumed.resumed_step > last_resumed);
        last_resumed = resumed.resumed_step;
        for (const char* file : {"/last.safetensors", "/best.safetensors"}) {
          CHECK(testing::read_text(setup.dir + file) == testing::read_text((dir / "whole") + file));
        }
        CHECK(losses(setup.dir) == losses(dir / "whole"));
      }
    }
  }
}

TEST_CASE("a communication hook's state is in the checkpoint, and another hook is refused") {
  const testing::TempDir dir;
  Setup setup{.ranks = 3, .dir = dir / "whole", .comm_hook = "topk:ratio=0.05"};
  train(setup);
  setup.dir = dir / "crash";
  setup.crash_at_batch = 20;
  CHECK_THROWS_AS(train(setup), Error);
  setup.crash_at_batch = -1;
  setup.resume = true;
  setup.comm_hook = "topk:ratio=0.1";
  CHECK_THROWS_AS(train(setup), ArgumentError);
  setup.comm_hook = "topk:ratio=0.05";
  CHECK(train(setup).resumed_step == 20);
  for (const char* file : {"/last.safetensors", "/best.safetensors"}) {
    CHECK(testing::read_text(setup.dir + file) == testing::read_text((dir / "whole") + file));
  }
  const std::string bytes = testing::read_text(setup.dir + "/last.safetensors");
  const Checkpoint last = parse_checkpoint(std::as_bytes(std::span(bytes)), "last");
  CHECK(last.comm_hook.size() == 3 * 6);  // each rank's, of each parameter
}

TEST_CASE("a finished run has nothing left to do and still tells its accuracy") {
  const testing::TempDir dir;
  Setup setup{.epochs = 1, .dir = dir / "run"};
  const Outcome first = train(setup);
  setup.resume = true;
  const Outcome again = train(setup);
  CHECK(again.resumed_step == first.result.position.step);
  CHECK(again.result.position == first.result.position);
  CHECK(again.result.test_accuracy == first.result.test_accuracy);
}

TEST_CASE("another kind of run, another world size, and a short file are refused on every rank") {
  const testing::TempDir dir;
  Setup setup{.epochs = 1, .dir = dir / "run"};
  train(setup);
  setup.resume = true;
  setup.batch_size = 16;
  CHECK_THROWS_AS(train(setup), ArgumentError);
  setup.batch_size = 32;
  setup.ranks = 3;
  CHECK_THROWS_AS(train(setup), ArgumentError);
  setup.ranks = 2;
  std::filesystem::resize_file(setup.dir + "/last.safetensors", 1000);
  CHECK_THROWS_AS(train(setup), Error);  // rank 0 reads it; the others lose their peer
  std::filesystem::remove(setup.dir + "/last.safetensors");
  CHECK_THROWS_AS(train(setup), Error);
}

TEST_CASE("a resumed run keeps the bucket plan of its checkpoint, and a run says which it used") {
  const testing::TempDir dir;
  const auto plan = [&](const char* run) {
    return testing::read_text((dir / run) + "/bucket_plan.json");
  };
  Setup setup{.epochs = 1, .dir = dir / "whole"};
  train(setup);
  setup.first_cap_mb = 0;
  setup.dir = dir / "single";
  train(setup);
  CHECK(plan("single").find("fc.bias") != std::string::npos);
  CHECK(plan("single") != plan("whole"));
  setup.first_cap_mb = 1;
  setup.resume = true;
  const std::string before = plan("single");
  for (const int64_t epochs : {1, 2}) {  // nothing left to train, and an epoch
    std::filesystem::remove(dir / "single/bucket_plan.json");
    setup.epochs = epochs;
    train(setup);
    CHECK(plan("single") == before);
  }

  const std::string file = dir / "single/last.safetensors";
  const std::string bytes = testing::read_text(file);
  Checkpoint checkpoint = parse_checkpoint(std::as_bytes(std::span(bytes)), file);
  CHECK(checkpoint.bucket_plan == before);
  checkpoint.bucket_plan.replace(before.find("fc.bias"), 7, "fc.blas");
  write_checkpoint(file, checkpoint);
  CHECK_THROWS_WITH_AS(train(setup), doctest::Contains("got \"fc.blas\""), IoError);
}

TEST_CASE("a position that training cannot come to is refused") {
  const testing::TempDir dir;
  Setup setup{.epochs = 1, .dir = dir / "run"};
  const int64_t steps = train(setup).steps_per_epoch;
  setup.resume = true;
  setup.epochs = 2;
  const std::string file = setup.dir + "/last.safetensors";
  const std::string bytes = testing::read_text(file);
  Checkpoint checkpoint = parse_checkpoint(std::as_bytes(std::span(bytes)), file);
  const Position whole = checkpoint.position;
  CHECK(whole == Position{.step = steps, .epoch = 1, .batch = 0});
  for (const Position& wrong :
       {Position{steps + 1, 1, 0}, Position{steps, INT64_MAX, 0}, Position{INT64_MAX, 1, 0},
        Position{steps, -1, 0}, Position{steps, 1, 1}, Position{-1, 0, 0}, Position{0, 1, 0}}) {
    CAPTURE(wrong.step);
    CAPTURE(wrong.epoch);
    CAPTURE(wrong.batch);
    checkpoint.position = wrong;
    write_checkpoint(file, checkpoint);
    CHECK_THROWS_AS(train(setup), IoError);
  }
  checkpoint.position = whole;
  write_checkpoint(file, checkpoint);
  CHECK(train(setup).resumed_step == steps);
}

}  // namespace
}  // namespace lockstep
