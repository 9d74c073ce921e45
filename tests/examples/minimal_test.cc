// The smallest program learns, alone and on two ranks, and leaves its file.
#include "lockstep/io/safetensors.h"
#include "lockstep/tests/support/process.h"
#include "lockstep/tests/support/temp_dir.h"

#include <doctest/doctest.h>

namespace lockstep {
namespace {

TEST_CASE("minimal learns and saves") {
  const std::string minimal = testing::program_path("examples/minimal/minimal");
  const std::string launcher = testing::program_path("tools/lockstep");
  for (const std::string& command : {minimal, launcher + " launch --nproc 2 -- " + minimal}) {
    CAPTURE(command);
    const testing::TempDir dir;
    testing::Process run({"sh", "-c", "cd " + dir.path().string() + " && exec " + command},
                         {.env = {{"OMP_NUM_THREADS", "1"}}});
    REQUIRE(run.ends_within(std::chrono::milliseconds(50'000)));
    REQUIRE_MESSAGE(run.exit_code() == 0, run.err());
    const std::string out = run.out();
    const size_t last = out.rfind("loss ");
    REQUIRE(last != out.npos);
    // Half of the points lie inside: knowing nothing costs 0.69.
    CHECK_MESSAGE(std::stod(out.substr(last + 5)) < 0.2, out);
    CHECK(read_safetensors(dir / "minimal.safetensors").at("hidden.weight").shape() ==
          Shape{32, 2});
  }
}

}  // namespace
}  // namespace lockstep
