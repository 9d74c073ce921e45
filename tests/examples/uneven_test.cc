// train_resnet --uneven: how many steps an epoch has, what three processes with 94 samples for a
// last batch of 192 do, and that a run goes on only as it began.
#include "lockstep/tests/examples/trainer_process.h"
#include "lockstep/tests/support/temp_dir.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace lockstep {
namespace {

using testing::run_trainer;

/// 1,438 images: 7 global batches of 192 and 94 images.
std::vector<std::string> arguments(const std::string& policy, const std::string& dir,
                                   const std::vector<std::string>& more = {}) {
  std::vector<std::string> all{"--nproc",      "3", "--threads", "1",    "--batch-size",   "64",
                               "--epochs",     "2", "--uneven",  policy, "--log-interval", "1",
                               "--output-dir", dir};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

/// The step of the last line of metrics.jsonl.
int last_step(const std::string& dir) {
  const std::string text = testing::read_text(dir + "/metrics.jsonl");
  const size_t at = text.rfind("\"step\":");
  return at == std::string::npos ? -1 : std::stoi(text.substr(at + 7));
}

TEST_CASE("drop takes 7 steps in an epoch, pad and join 8, error none") {
  const testing::TempDir dir;
  std::vector<std::string> bytes;
  for (const auto& [policy, steps] : {std::pair{"drop", 14}, {"pad", 16}, {"join", 16}}) {
    CAPTURE(policy);
    const auto run = run_trainer(arguments(policy, dir / policy, {"--check-replicas-every", "1"}));
    REQUIRE_MESSAGE(run->exit_code() == 0, run->err());
    CHECK(last_step(dir / policy) == steps);
    bytes.push_back(testing::read_text(dir / (std::string(policy) + "/last.safetensors")));
  }
  CHECK(bytes[1] != bytes[2]);
  const auto refused = run_trainer(arguments("error", dir / "error"));
  CHECK(refused->exit_code() == 2);
  CHECK(refused->err().find("1438 samples are 7 global batches of 3 x 64 and 94 samples more") !=
        std::string::npos);
}

TEST_CASE("join: a rank without an image, accumulation, and layer drop") {
  const testing::TempDir dir;
  // 1,438 = 205 x 7 + 3: in the last batch of 7 ranks' parts of 1 four are empty.
  const auto run = run_trainer({"--nproc", "7", "--threads", "1", "--batch-size", "1", "--epochs",
                                "1", "--grad-accum-steps", "103", "--uneven", "join",
                                "--layer-drop", "0.2", "--check-replicas-every", "1"});
  CHECK_MESSAGE(run->exit_code() == 0, run->err());
}

TEST_CASE("a run goes on only with the policy that it began with; what cannot join says so") {
  const testing::TempDir dir;
  const std::vector<std::string> short_run{"--nproc",     "3", "--batch-size", "64",
                                           "--max-steps", "2", "--output-dir", dir / "run"};
  std::vector<std::string> first = short_run, second = short_run;
  first.insert(first.end(), {"--uneven", "join"});
  second.insert(second.end(), {"--resume", "auto"});
  REQUIRE(run_trainer(first)->exit_code() == 0);
  const auto other = run_trainer(second);
  CHECK(other->exit_code() == 2);
  CHECK(other->err().find("--uneven join as in the checkpoint") != std::string::npos);

  for (const char* flag : {"--sync-bn", "--static-graph"}) {
    const auto refused = run_trainer({"--uneven", "join", flag});
    CHECK(refused->exit_code() == 2);
    CHECK(refused->err().find("--uneven join") != std::string::npos);
  }
}

}  // namespace
}  // namespace lockstep
