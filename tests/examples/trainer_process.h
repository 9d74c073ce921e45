// Programs that train, as processes.
#pragma once

#include "lockstep/tests/support/process.h"

#include <memory>
#include <string>
#include <vector>

namespace lockstep::testing {

// Generous: a loaded machine with sanitizers is many times slower.
inline constexpr std::chrono::milliseconds kDeadline{240'000};

/// A program by its path in the workspace, without what a launcher of its own would have set.
inline std::unique_ptr<Process> start_program(const char* program,
                                              const std::vector<std::string>& arguments,
                                              ProcessOptions options = {}) {
  std::vector<std::string> command{program_path(program)};
  command.insert(command.end(), arguments.begin(), arguments.end());
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR",
                           "MASTER_PORT", "LOCKSTEP_TOKEN"}) {
    options.env.insert(options.env.begin(), {name, ""});
  }
  return std::make_unique<Process>(command, options);
}

/// Runs it to its end; the exit code is -1 when that did not come in time.
inline std::unique_ptr<Process> run_program(const char* program,
                                            const std::vector<std::string>& arguments,
                                            const ProcessOptions& options = {}) {
  auto process = start_program(program, arguments, options);
  process->ends_within(kDeadline);
  return process;
}

/// train_resnet.
inline std::unique_ptr<Process> start_trainer(const std::vector<std::string>& arguments,
                                              const ProcessOptions& options = {}) {
  return start_program("examples/train_resnet/train_resnet", arguments, options);
}
inline std::unique_ptr<Process> run_trainer(const std::vector<std::string>& arguments,
                                            const ProcessOptions& options = {}) {
  return run_program("examples/train_resnet/train_resnet", arguments, options);
}

}  // namespace lockstep::testing
