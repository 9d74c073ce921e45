// A few trials of tools/soak.sh of each kind that takes no long time and needs no right: whatever
// ends a rank, the others end and say so, and the run goes on to the same bits.
#include "lockstep/tests/examples/trainer_process.h"
#include "lockstep/tests/support/temp_dir.h"

#include <doctest/doctest.h>

#include <cstdio>

namespace lockstep {
namespace {

using testing::Process;
using testing::program_path;

/// The exit code of so many trials of `kind`; what they print goes to this test's output.
int soak(const char* kind, const char* trials, const testing::ProcessOptions& options) {
  Process run({program_path("tools/soak.sh"), trials, "--seed", "1", "--only", kind}, options);
  const int code = run.wait(testing::kDeadline);
  std::printf("%s%s", run.out().c_str(), run.err().c_str());
  return code;
}

TEST_CASE("disturbed runs end with the bits of one that nobody disturbed") {
  const testing::TempDir dir;
  testing::ProcessOptions options{
      .env = {{"TMPDIR", dir.path().string()},
              {"TRAIN_RESNET", program_path("examples/train_resnet/train_resnet")},
              {"LOCKSTEP", program_path("tools/lockstep")}}};
  CHECK(soak("kill", "2", options) == 0);
  CHECK(soak("point", "4", options) == 0);
  CHECK(soak("start", "1", options) == 0);
  CHECK(soak("pause", "1", options) == 0);
  CHECK(std::filesystem::is_empty(dir.path()));

  // Trials with another learning rate are found.
  const std::string other = dir / "other";
  testing::write_file(
      other, "#!/bin/sh\ncase \"$*\" in */trial/run*) set -- \"$@\" --lr 0.05 ;; esac\nexec " +
                 program_path("examples/train_resnet/train_resnet") + " \"$@\"\n");
  std::filesystem::permissions(other, std::filesystem::perms::owner_all);
  options.env[1].second = other;
  CHECK(soak("kill", "1", options) == 1);
}

}  // namespace
}  // namespace lockstep
