#include "lockstep/train/run_dir.h"

#include "lockstep/base/error.h"
#include "lockstep/tests/support/temp_dir.h"
#include "lockstep/train/run_info.h"

#include <doctest/doctest.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>

namespace lockstep {
namespace {

void touch(const std::string& path) { std::ofstream(path) << "x"; }

std::string refusal(const RunDirOptions& options) {
  try {
    RunDir dir(options);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("a new directory is made with those above it; an empty one serves") {
  const testing::TempDir temp;
  CHECK(refusal({.path = temp / "a/b"}) == "");
  CHECK(std::filesystem::is_directory(temp / "a/b"));
  CHECK(refusal({.path = temp / "a/b"}) == "");
}

TEST_CASE("a directory with files is refused without --resume or --overwrite, and left alone") {
  const testing::TempDir temp;
  touch(temp / "metrics.jsonl");
  touch(temp / "notes.txt");
  const std::string message = refusal({.path = temp.path().string()});
  CHECK(message.find("not empty") != std::string::npos);
  CHECK(message.find("--resume") != std::string::npos);
  CHECK(std::filesystem::exists(temp / "metrics.jsonl"));
  CHECK(refusal({.path = temp.path().string(), .resume = true}) == "");
  CHECK(std::filesystem::exists(temp / "metrics.jsonl"));
  CHECK(refusal({.path = temp.path().string(), .resume = true, .overwrite = true}) != "");
}

TEST_CASE("--overwrite deletes a run's files and no others") {
  const testing::TempDir temp;
  const std::vector<std::string> ours = {"metrics.jsonl",
                                         "run.json",
                                         "last.safetensors",
                                         "best.safetensors",
                                         "steps.rank0.jsonl",
                                         "last.safetensors.tmp",
                                         "events.out.tfevents.1.host.1.lockstep"};
  for (const std::string& name : ours) touch(temp / name);
  touch(temp / "notes.txt");
  RunDir dir({.path = temp.path().string(), .overwrite = true});
  for (const std::string& name : ours) CHECK(!std::filesystem::exists(temp / name));
  CHECK(std::filesystem::exists(temp / "notes.txt"));
}

TEST_CASE("the launcher's logs make no run, and stay") {
  const testing::TempDir temp;
  touch(temp / "rank1.log");
  CHECK(refusal({.path = temp.path().string()}) == "");
  CHECK(refusal({.path = temp.path().string(), .overwrite = true}) == "");
  CHECK(std::filesystem::exists(temp / "rank1.log"));
}

TEST_CASE("one run at a time") {
  const testing::TempDir temp;
  {
    RunDir first({.path = temp / "run"});
    CHECK(refusal({.path = temp / "run"}).find("another run") != std::string::npos);
    // A launcher asks before it opens its logs there.
    CHECK_THROWS_AS(RunDir::check({.path = temp / "run", .overwrite = true}), IoError);
  }
  CHECK_NOTHROW(RunDir::check({.path = temp / "run"}));
  CHECK(refusal({.path = temp / "run"}) == "");
}

TEST_CASE("a path that is a file, below a file, or empty is refused") {
  const testing::TempDir temp;
  touch(temp / "file");
  CHECK(refusal({.path = temp / "file"}).find("wanted a directory") != std::string::npos);
  CHECK(refusal({.path = temp / "file/run"}) != "");
  CHECK(refusal({.path = ""}) != "");
}

TEST_CASE("a directory that cannot be written is refused") {
  if (::geteuid() == 0) {
    if (!std::filesystem::exists("/proc/self")) return;
    // Root writes anywhere but here.
    CHECK(refusal({.path = "/proc/self/run"}) != "");
    return;
  }
  const testing::TempDir temp;
  std::filesystem::permissions(temp.path().string(), std::filesystem::perms::owner_read |
                                                         std::filesystem::perms::owner_exec);
  CHECK(refusal({.path = temp.path().string()}) != "");
  std::filesystem::permissions(temp.path().string(), std::filesystem::perms::owner_all);
}

TEST_CASE("run.json says what was run") {
  const testing::TempDir temp;
  write_run_info(temp / "run.json", {.program = "train_resnet",
                                     .arguments = {"--lr", "0.1", "\xff"},
                                     .settings = {{"lr", "0.1"}},
                                     .seed = 7,
                                     .world_size = 2});
  std::ifstream in(temp / "run.json");
  const auto json = nlohmann::json::parse(in);
  CHECK(json["arguments"][1] == "0.1");
  CHECK(json["settings"]["lr"] == "0.1");
  CHECK(json["seed"] == 7);
  CHECK(json["world_size"] == 2);
  CHECK(json["resumed_step"].is_null());
  CHECK(!json["commit"].get<std::string>().empty());
  CHECK(!json["processor"].get<std::string>().empty());
}

}  // namespace
}  // namespace lockstep
