// Progress: the line that says how a run is doing. On a terminal that is wide enough one line
// rewrites itself; elsewhere each is a line.
#pragma once

#include "lockstep/train/step_times.h"

#include <cstdint>
#include <cstdio>
#include <string>

namespace lockstep {

struct ProgressState {
  int64_t epoch = 0, epochs = 0;  // counted from 0
  int64_t step = 0, steps = 0;    // done so far, in the whole run
  double loss = 0;                // NaN: nothing was counted
  double accuracy = 0;            // fraction
  double samples_per_second = 0;  // over all ranks
  double seconds_left = 0;
};

/// "epoch 2/10 step 40/230  loss 0.4123  acc 87.50 %  5120/s  ETA 0:42  comm ...": samples per
/// second, and nothing of communication when `comm_phrase` is empty, as for one process.
std::string format_progress(const ProgressState& state, const std::string& comm_phrase);

/// "0:42", "12:05", "1:02:03"; "?" for what is not a number of seconds.
std::string format_duration(double seconds);

/// "97.22 %".
std::string format_percent(double fraction);

class Progress {
 public:
  /// `out` null: silent, as ranks other than 0 are.
  explicit Progress(std::FILE* out);
  /// Ends a line that is still open, so that an error's message does not follow on it.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(const std::string& line);
  /// A line that stays, such as an epoch's result.
  void say(const std::string& line);

 private:
  /// Whether the terminal shows it on one line: a line that wraps cannot be rewritten.
  bool fits(const std::string& line) const;

  std::FILE* out_;
  bool terminal_;
  bool open_ = false;  // an unfinished line is on the terminal
};

}  // namespace lockstep
