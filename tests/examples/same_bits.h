// A short training run whose checkpoint tells whether ranks have computed the same bits.
#pragma once

#include "lockstep/tests/examples/trainer_process.h"
#include "lockstep/tests/support/temp_dir.h"

#include <string>
#include <utility>
#include <vector>

namespace lockstep::testing {

using Env = std::vector<std::pair<std::string, std::string>>;

/// train_resnet and its arguments: seven steps by three ranks, five by four.
inline std::vector<std::string> short_training(const std::string& output_dir) {
  return {program_path("examples/train_resnet/train_resnet"),
          "--threads",
          "1",
          "--batch-size",
          "64",
          "--epochs",
          "1",
          "--seed",
          "7",
          "--bucket-cap-mb",
          "0.1",
          "--first-bucket-cap-mb",
          "0.01",
          "--output-dir",
          output_dir};
}

/// The checkpoint of that run by `ranks` processes of train_resnet --nproc.
inline std::string checkpoint_by_nproc(int ranks) {
  const TempDir dir;
  std::vector<std::string> command = short_training(dir / "run");
  command.insert(command.end(), {"--nproc", std::to_string(ranks)});
  Process run(command);
  if (run.wait(kDeadline) != 0) throw std::runtime_error(run.err());
  return read_text(dir / "run/last.safetensors");
}

/// Whether the shell finds a program of that name.
inline bool is_in_path(const std::string& name) {
  Process look({"sh", "-c", "command -v " + name});
  return look.wait() == 0;
}

}  // namespace lockstep::testing
