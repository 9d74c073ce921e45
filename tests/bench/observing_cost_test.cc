// bench/observing_cost runs, and claims nothing of two pairs.
#include "lockstep/tests/support/process.h"

#include <doctest/doctest.h>

namespace lockstep {
namespace {

TEST_CASE("observing_cost: a ResNet and a BERT") {
  for (const char* model : {"resnet8", "bert-tiny"}) {
    CAPTURE(model);
    testing::Process run({testing::program_path("bench/observing_cost"), "--model", model, "--size",
                          "16", "--batch", "2", "--pairs", "2", "--seconds", "0.2"});
    CHECK_MESSAGE(run.wait(std::chrono::milliseconds(60'000)) == 0, run.err());
    const std::string out = run.out();
    CHECK_MESSAGE(out.find("2 processes x 1 thread(s)") != std::string::npos, out);
    CHECK_MESSAGE(out.find("| processor time, ") != std::string::npos, out);
    CHECK_MESSAGE(out.find("too few pairs to tell") != std::string::npos, out);
  }
}

}  // namespace
}  // namespace lockstep
