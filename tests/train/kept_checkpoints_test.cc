// Checkpoints of earlier steps: which stay, and that none goes too early.
#include "lockstep/train/kept_checkpoints.h"

#include "lockstep/base/error.h"
#include "lockstep/base/failpoint.h"
#include "lockstep/tests/support/temp_dir.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace lockstep {
namespace {

/// What write_checkpoint does with the name: another file takes it.
void write_last(const testing::TempDir& dir, const std::string& contents) {
  std::ofstream(dir / "new") << contents;
  std::filesystem::rename(dir / "new", dir / "last.safetensors");
}

std::vector<int64_t> files(const testing::TempDir& dir) {
  return kept_checkpoints(dir.path().string());
}

TEST_CASE("the newest stay, each with what it was, and nothing is written twice") {
  const testing::TempDir dir;
  const std::string path = dir.path().string();
  for (const int step : {8, 9, 10, 11}) {
    write_last(dir, "of step " + std::to_string(step));
    keep_last_checkpoint(path, step, 2);
  }
  CHECK(files(dir) == std::vector<int64_t>{10, 11});
  CHECK(testing::read_text(dir / "step-10.safetensors") == "of step 10");
  CHECK(testing::read_text(dir / "step-11.safetensors") == "of step 11");
  struct stat last {
  }, kept{};
  REQUIRE(::stat((dir / "last.safetensors").c_str(), &last) == 0);
  REQUIRE(::stat((dir / "step-11.safetensors").c_str(), &kept) == 0);
  CHECK(last.st_ino == kept.st_ino);
  // The same step once more, the same file and another one: as after a resume.
  keep_last_checkpoint(path, 11, 2);
  write_last(dir, "once more");
  keep_last_checkpoint(path, 11, 2);
  CHECK(files(dir) == std::vector<int64_t>{10, 11});
  CHECK(testing::read_text(dir / "step-11.safetensors") == "once more");
  CHECK(std::distance(std::filesystem::directory_iterator(path), {}) == 3);
}

TEST_CASE("files that only look alike, and those of later steps, are left alone") {
  const testing::TempDir dir;
  const std::vector<std::string> others = {
      "step-.safetensors", "step-007.safetensors", "step--1.safetensors",
      "step-5.txt",        "step-5x.safetensors",  "step-99999999999999999999.safetensors"};
  for (const std::string& name : others) {
    CHECK_FALSE(is_kept_checkpoint(name));
    std::ofstream(dir / name) << "mine";
  }
  CHECK(is_kept_checkpoint(kept_checkpoint_name(0)));
  write_last(dir, "later");
  for (const int step : {300, 100, 200}) keep_last_checkpoint(dir.path().string(), step, 1);
  // It went back to step 100 and came to 200: 300 is what was before.
  CHECK(files(dir) == std::vector<int64_t>{200, 300});
  for (const std::string& name : others) CHECK(std::filesystem::exists(dir / name));
}

TEST_CASE("killed before it has the new one or before it deletes, as many as before are there") {
  for (const char* point : {"kept_checkpoint.before_rename", "kept_checkpoint.before_prune"}) {
    CAPTURE(point);
    const testing::TempDir dir;
    const std::string path = dir.path().string();
    for (const int step : {1, 2}) {
      write_last(dir, std::to_string(step));
      keep_last_checkpoint(path, step, 2);
    }
    write_last(dir, "3");
    const pid_t child = ::fork();
    if (child == 0) {
      set_failpoint(point);
      keep_last_checkpoint(path, 3, 2);
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    REQUIRE(WIFSIGNALED(status));
    const std::vector<int64_t> after = files(dir);
    CHECK(after.size() >= 2);
    CHECK(after[0] == 1);
    CHECK(after[1] == 2);
    write_last(dir, "4");
    keep_last_checkpoint(path, 4, 2);  // what was left half done is no obstacle
    CHECK(files(dir).size() == 2);
    CHECK(files(dir).back() == 4);
    keep_last_checkpoint(path, 3, 2);
    CHECK_FALSE(std::filesystem::exists(dir / "step-3.safetensors.tmp"));
  }
}

TEST_CASE("a directory that is gone is an error that says what is whole") {
  const testing::TempDir dir;
  CHECK_THROWS_AS(keep_last_checkpoint(dir / "gone", 1, 1), IoError);
  CHECK_THROWS_AS(keep_last_checkpoint(dir.path().string(), 1, 0), ArgumentError);
  CHECK(kept_checkpoints(dir / "gone").empty());
}

}  // namespace
}  // namespace lockstep
