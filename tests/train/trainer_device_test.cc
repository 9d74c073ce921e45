// Trainer: a model on a device is trained as one on the CPU. The device is simulated: its kernels
// are the CPU's, run later on streams, its memory is poisoned, and the host that follows one of its
// addresses crashes.
#include "lockstep/tests/support/sim_device.h"
#include "lockstep/tests/support/temp_dir.h"
#include "lockstep/tests/train/small_run.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <fstream>

namespace lockstep {
namespace {

using std::chrono::microseconds;
using testing::Crash;
using testing::losses;
using testing::Outcome;
using testing::Setup;
using testing::SimDevice;
using testing::SimDeviceOptions;
using testing::train;

const SimDeviceOptions kUneven{.compute = {microseconds(0), microseconds(40)},
                               .side = {microseconds(0), microseconds(400)}};

/// Equal but for the order in which three gradients are added.
void check_same(const std::vector<double>& got, const std::vector<double>& wanted) {
  REQUIRE(got.size() == wanted.size());
  for (size_t i = 0; i < got.size(); ++i) CHECK(std::abs(got[i] - wanted[i]) <= 2e-4 * wanted[i]);
}

Setup small(const std::string& dir, int ranks) {
  return {.ranks = ranks,
          .epochs = 1,
          .accumulate = 2,
          .checkpoint_every = 4,
          .dir = dir,
          .check_replicas_every = 3};
}

TEST_CASE("a run on a device gives the losses and the evaluation of one on the CPU") {
  const testing::TempDir dir;
  for (const int ranks : {1, 3}) {
    CAPTURE(ranks);
    Setup setup = small(dir / str("cpu", ranks), ranks);
    const Outcome wanted = train(setup);
    const SimDevice device(kUneven);
    setup.dir = dir / str("device", ranks);
    setup.device = Device::cuda();
    const Outcome got = train(setup);
    check_same(losses(setup.dir), losses(dir / str("cpu", ranks)));
    CHECK(std::abs(got.result.test_loss - wanted.result.test_loss) <=
          2e-4 * wanted.result.test_loss);
    CHECK(got.result.position.step == wanted.result.position.step);
  }
}

TEST_CASE("a run on a device resumes from its checkpoint, also on the CPU") {
  const testing::TempDir dir;
  std::vector<double> whole;
  {
    const SimDevice device(kUneven);
    Setup setup = small(dir / "whole", 3);
    setup.device = Device::cuda();
    train(setup);
    whole = losses(setup.dir);
  }
  for (const bool on_device : {true, false}) {
    CAPTURE(on_device);
    Setup setup = small(dir / str("crashed", on_device), 3);
    {
      const SimDevice device(kUneven);
      setup.device = Device::cuda();
      setup.crash_at_batch = 10;
      CHECK_THROWS_AS(train(setup), Error);
    }
    setup.crash_at_batch = -1;
    setup.resume = true;
    if (on_device) {
      const SimDevice device(kUneven);
      CHECK(train(setup).resumed_step == 4);
    } else {
      setup.device = Device::cpu();
      CHECK(train(setup).resumed_step == 4);
    }
    check_same(losses(setup.dir), whole);
  }
}

TEST_CASE("on a device communication is hidden under slow kernels and exposed after fast ones") {
  const testing::TempDir dir;
  const auto run = [&](const char* name, const SimDeviceOptions& options) {
    const SimDevice device(options);
    Setup setup = small(dir / name, 3);
    setup.device = Device::cuda();
    setup.max_steps = 4;
    setup.first_cap_mb = 0;
    train(setup);
    std::ifstream in(setup.dir + "/metrics.jsonl");
    nlohmann::json last;
    for (std::string line; std::getline(in, line);) {
      const auto json = nlohmann::json::parse(line);
      if (json["kind"] == "train") last = json;
    }
    return last;
  };
  const auto exposed =
      run("exposed", {.compute = {}, .side = {microseconds(20'000), microseconds(20'000)}});
  // The simulated group's times are those of its transfers, without the stream's delay; so most of
  // this is waiting, and none of it computing.
  CHECK(exposed["comm_exposed_ms"] > 0);
  CHECK(exposed["step_ms"] > 40);
  CHECK(exposed["backward_ms"] < exposed["step_ms"].get<double>() / 2);
  const auto hidden =
      run("hidden", {.compute = {microseconds(5'000), microseconds(5'000)}, .side = {}});
  CHECK(hidden["comm_hidden_ms"] > 0);
  CHECK(hidden["forward_ms"] > 20);
  CHECK(hidden["backward_ms"] > 20);
}

TEST_CASE(
    "a gradient on a device that is not finite is named, with its rank, and can be left out") {
  const testing::TempDir dir;
  const SimDevice device(kUneven);
  Setup setup = small(dir / "error", 3);
  setup.device = Device::cuda();
  setup.accumulate = 1;
  setup.spoil_rank = 1;
  setup.spoil_from = 4;
  setup.spoil_to = 5;
  setup.nonfinite.action = OnNonfinite::kError;
  std::string message;
  try {
    train(setup);
  } catch (const Error& error) {
    message = error.what();
  }
  CHECK(message.find("not finite at step 5: the gradient of conv.weight, first on rank 1") !=
        std::string::npos);
  setup.dir = dir / "skip";
  setup.nonfinite.action = OnNonfinite::kSkip;
  CHECK(std::isfinite(train(setup).result.test_loss));
}

}  // namespace
}  // namespace lockstep
