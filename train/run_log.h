// RunLog: the files in which a run says how it goes, metrics.jsonl and the same for TensorBoard.
#pragma once

#include "lockstep/train/metrics_log.h"
#include "lockstep/train/run_dir.h"
#include "lockstep/train/tensorboard_log.h"

namespace lockstep {

class RunLog {
 public:
  /// Of a run that begins, or goes on, at `start`. Throws IoError.
  RunLog(const RunDir& dir, const Position& start)
      : metrics_(dir.file("metrics.jsonl"), start), tensorboard_(dir.path(), metrics_.kept()) {}

  /// As MetricsLog's.
  void log_interval(int64_t epoch, int64_t step, const MetricsLog::Fields& fields) {
    tensorboard_.add(metrics_.log_interval(epoch, step, fields));
  }
  void log_epoch(int64_t epoch, int64_t step, const MetricsLog::Fields& fields) {
    tensorboard_.add(metrics_.log_epoch(epoch, step, fields));
  }
  void log_evaluation(int64_t epoch, int64_t step, double epochs_done,
                      const MetricsLog::Fields& fields) {
    tensorboard_.add(metrics_.log_evaluation(epoch, step, epochs_done, fields));
  }

 private:
  MetricsLog metrics_;
  TensorboardLog tensorboard_;
};

}  // namespace lockstep
