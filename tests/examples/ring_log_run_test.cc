// A training of which one process is killed: what the others say, leave behind, and what lockstep
// diagnose makes of it.
#include "lockstep/tests/examples/trainer_process.h"
#include "lockstep/tests/support/eventually.h"
#include "lockstep/tests/support/temp_dir.h"

#include <doctest/doctest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using testing::kDeadline;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string contents(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

/// The process of a rank, among the launcher's children.
pid_t process_of(const testing::Process& launcher, int rank) {
  for (const pid_t pid : launcher.children()) {
    const std::string environment = contents("/proc/" + std::to_string(pid) + "/environ");
    if (contains(environment, std::string("\0RANK=", 6) + std::to_string(rank))) return pid;
  }
  return -1;
}

TEST_CASE("a rank of a training is killed: the others name it, and lockstep diagnose shows where") {
  const testing::TempDir dir;
  const std::string run = dir.path().string() + "/run";
  const std::vector<std::string> arguments{"--nproc",  "3",      "--threads",    "1",
                                           "--epochs", "1000",   "--output-dir", run,
                                           "--model",  "resnet8"};
  const auto trainer = testing::start_trainer(arguments);
  REQUIRE(testing::eventually([&] { return contains(trainer->out(), "epoch 1/"); }, kDeadline));
  ::kill(process_of(*trainer, 1), SIGKILL);
  CHECK(trainer->wait(kDeadline) == 128 + SIGKILL);
  CHECK_MESSAGE(contains(trainer->err(), "rank 1"), trainer->err());
  CHECK_MESSAGE(contains(trainer->err(), "rank 1 is dead"), trainer->err());

  CHECK(!fs::exists(run + "/ring.rank1.json"));
  const auto page = testing::run_program("tools/lockstep", {"diagnose", run});
  CHECK(page->exit_code() == 0);
  CAPTURE(page->out());
  CHECK(contains(page->out(), "ring logs of ranks 0 and 2 of a run of 3"));
  CHECK(contains(page->out(), "No log of rank 1: killed"));
  CHECK(contains(page->out(), "waited for rank 1 in collective "));
  CHECK(contains(page->out(), "world: the logs agree on the calls of the collectives"));
  CHECK(contains(page->out(), "is dead (gone so far: rank 1)"));
  CHECK(contains(contents(run + "/ring.rank0.json"), "\"bucket 0: "));

  // It goes on, and its folder has nothing of the failure any more.
  auto resumed = arguments;
  resumed[5] = "1";
  resumed.insert(resumed.end(), {"--resume", "auto"});
  const auto again = testing::run_trainer(resumed);
  CHECK_MESSAGE(again->exit_code() == 0, again->err());
  CHECK(!fs::exists(run + "/ring.rank0.json"));
  const auto none = testing::run_program("tools/lockstep", {"diagnose", run});
  CHECK(none->exit_code() == 1);
  CHECK_MESSAGE(contains(none->err(), "wanted ring.rankN.json, got none"), none->err());
}

}  // namespace
}  // namespace lockstep
