// Running programs from tests: with a deadline, their output caught, and all that they started
// ended with them.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::testing {

struct ProcessOptions {
  std::vector<std::pair<std::string, std::string>> env =
      {};                     // set in addition; an empty value unsets
  long file_size_limit = -1;  // bytes that a file may have; -1: as here. SIGXFSZ is ignored then
};

class Process {
 public:
  /// Starts it in a process group of its own. Throws std::runtime_error when it cannot be forked.
  Process(const std::vector<std::string>& command, const ProcessOptions& options = {});
  /// Kills the group if it is still there.
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  /// Waits at most that long; whether it has ended.
  bool ends_within(std::chrono::milliseconds time);
  /// The same; its exit code as below.
  int wait(std::chrono::milliseconds time = std::chrono::milliseconds(20'000));
  /// Its exit code, or 128 + the signal that ended it; -1 while it runs.
  int exit_code() const { return exit_code_; }
  /// What it has written so far.
  std::string out() const;
  std::string err() const;
  /// Its child processes.
  std::vector<pid_t> children() const;

 private:
  pid_t pid_ = -1;
  bool ended_ = false;
  int exit_code_ = -1;
  int out_fd_ = -1;
  int err_fd_ = -1;
};

/// The path of a program among the test's `data`, such as "examples/train_resnet/train_resnet".
std::string program_path(const std::string& path);

}  // namespace lockstep::testing
