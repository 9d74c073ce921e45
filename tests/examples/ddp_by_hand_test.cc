// The three ways of averaging by hand end with the same loss: one that sent a bucket too early, or
// in another place, would not.
#include "lockstep/tests/support/process.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace lockstep {
namespace {

TEST_CASE("by hand: naive, bucketed and overlapped are the same training") {
  testing::Process run({testing::program_path("examples/ddp_by_hand/ddp_by_hand")},
                       {.env = {{"OMP_NUM_THREADS", "1"}}});
  REQUIRE(run.ends_within(std::chrono::milliseconds(200'000)));
  REQUIRE_MESSAGE(run.exit_code() == 0, run.err());
  const std::string out = run.out();
  CAPTURE(out);
  std::vector<double> losses;
  for (const char* name : {"naive ", "bucketed ", "overlapped "}) {
    const size_t line = out.find(name);
    REQUIRE(line != out.npos);
    losses.push_back(std::stod(out.substr(out.find("last loss ", line) + 10)));
  }
  // f32, summed in another order where a gradient lies elsewhere in memory.
  CHECK(losses[1] == doctest::Approx(losses[0]).epsilon(1e-4));
  CHECK(losses[2] == doctest::Approx(losses[0]).epsilon(1e-4));
}

}  // namespace
}  // namespace lockstep
