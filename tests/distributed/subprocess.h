// Programs under test as processes of their own, with their output kept.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

namespace lockstep::testing {

using Environment = std::vector<std::pair<std::string, std::string>>;

class Subprocess {
 public:
  Subprocess(std::vector<std::string> command, const Environment& environment = {});
  /// Kills it if it still runs.
  ~Subprocess();
  Subprocess(const Subprocess&) = delete;
  Subprocess& operator=(const Subprocess&) = delete;

  pid_t pid() const { return pid_; }
  /// Its exit code, 128 + signal, or -1 if it has not ended after that time.
  int wait(int milliseconds = 20'000);
  std::string out() const;
  std::string err() const;

 private:
  std::string folder_;
  pid_t pid_ = -1;
  int result_ = -1;
};

/// The path of a program that the test lists in its `data`, or "" when the test runs outside Bazel.
std::string program(const std::string& path_in_repository);

/// Waits for `condition` for at most that time.
template <class Condition>
bool eventually(Condition condition, int milliseconds = 5000);

/// A new empty folder.
std::string make_folder();
void sleep_ms(int milliseconds);

template <class Condition>
bool eventually(Condition condition, int milliseconds) {
  for (int i = 0; i < milliseconds; i += 5) {
    if (condition()) return true;
    sleep_ms(5);
  }
  return condition();
}

}  // namespace lockstep::testing
