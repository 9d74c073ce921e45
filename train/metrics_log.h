// MetricsLog: metrics.jsonl, one JSON object a line. A line reaches the file in one write, so that
// a killed process leaves whole lines behind, save perhaps the last.
//
// Each line says when it was written: `unix_time`, seconds since 1970, and `seconds`, how long the
// run has gone on by then. A resumed run counts on from the last line that it keeps, so that the
// time between two starts does not count, and neither does work that was lost.
#pragma once

#include "lockstep/train/position.h"

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

class MetricsLog {
 public:
  using Fields = std::vector<std::pair<std::string, double>>;

  /// Opens `path` for appending, after keeping only what a run resumed at `start` has behind it:
  /// the lines of intervals and evaluations up to its step, and those of the epochs that ended
  /// before its epoch. A run from the start keeps nothing. Throws IoError.
  MetricsLog(std::string path, const Position& start);
  ~MetricsLog();
  MetricsLog(const MetricsLog&) = delete;
  MetricsLog& operator=(const MetricsLog&) = delete;

  /// {"kind": "train", "epoch": .., "step": .., "seconds": .., "unix_time": .., fields..}. Returns
  /// the line.
  std::string log_interval(int64_t epoch, int64_t step, const Fields& fields) {
    return write("train", epoch, step, fields);
  }
  /// {"kind": "epoch", ...}: after the evaluation that ends `epoch`. Returns the line.
  std::string log_epoch(int64_t epoch, int64_t step, const Fields& fields) {
    return write("epoch", epoch, step, fields);
  }

  /// {"kind": "evaluation", ...}: after one within an epoch, or before the first. Returns the line.
  std::string log_evaluation(int64_t epoch, int64_t step, double epochs_done, Fields fields) {
    fields.insert(fields.begin(), {"epochs_done", epochs_done});
    return write("evaluation", epoch, step, fields);
  }

  /// The lines that were kept.
  const std::string& kept() const { return kept_; }

 private:
  using Clock = std::chrono::steady_clock;

  std::string write(const char* kind, int64_t epoch, int64_t step, const Fields& fields);

  std::string path_;
  std::string kept_;
  double seconds_before_ = 0;  // of the run, by the last line kept
  Clock::time_point start_ = Clock::now();
  int fd_ = -1;
};

}  // namespace lockstep
