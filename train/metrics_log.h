// MetricsLog: metrics.jsonl, one JSON object a line. A line reaches the file in one write, so that
// a killed process leaves whole lines behind, save perhaps the last.
#pragma once

#include "lockstep/train/position.h"

#include <initializer_list>
#include <string>
#include <utility>

namespace lockstep {

class MetricsLog {
 public:
  using Fields = std::initializer_list<std::pair<const char*, double>>;

  /// Opens `path` for appending, after keeping only what a run resumed at `start` has behind it:
  /// the log lines up to its step, and the lines of the epochs that ended before its epoch. A run
  /// from the start keeps nothing. Throws IoError.
  MetricsLog(std::string path, const Position& start);
  ~MetricsLog();
  MetricsLog(const MetricsLog&) = delete;
  MetricsLog& operator=(const MetricsLog&) = delete;

  /// {"kind": "train", "epoch": .., "step": .., fields..}
  void log_interval(int64_t epoch, int64_t step, Fields fields) {
    write("train", epoch, step, fields);
  }
  /// {"kind": "epoch", ...}: after the evaluation that ends `epoch`.
  void log_epoch(int64_t epoch, int64_t step, Fields fields) {
    write("epoch", epoch, step, fields);
  }

 private:
  void write(const char* kind, int64_t epoch, int64_t step, Fields fields);

  std::string path_;
  int fd_ = -1;
};

}  // namespace lockstep
