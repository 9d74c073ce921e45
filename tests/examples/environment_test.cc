// What the programs make of an environment that is not as it should be.
#include "lockstep/tests/examples/trainer_process.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

namespace lockstep {
namespace {

using testing::Process;
using testing::run_trainer;

TEST_CASE("more threads by OMP_NUM_THREADS than can start") {
  // It crashed once.
  const auto run = run_trainer({"--epochs", "1"}, {.env = {{"OMP_NUM_THREADS", "99999"}}});
  const std::string err = run->err();
  CAPTURE(err);
  CHECK(run->exit_code() == 2);
  CHECK(err.starts_with("train_resnet: wanted at most 1024 compute threads, got 99999"));
  CHECK(std::count(err.begin(), err.end(), '\n') == 1);
}

TEST_CASE("what is printed and cannot be written is a failure") {
  for (const char* program :
       {"examples/train_resnet/train_resnet --epochs 1 --threads 1", "tools/lockstep doctor"}) {
    CAPTURE(program);
    Process run({"sh", "-c", "exec " + testing::program_path(program) + " >/dev/full"});
    REQUIRE(run.ends_within(testing::kDeadline));
    const std::string err = run.err();
    CAPTURE(err);
    CHECK(run.exit_code() == 1);
    CHECK(err.find("standard output: not all could be written") != std::string::npos);
  }
}

}  // namespace
}  // namespace lockstep
