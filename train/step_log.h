// StepLog: steps.rankN.jsonl, what `lockstep report` needs of one rank. Each line is JSON:
//
//   {"kind":"start","format":1,"step":0,"rank":0,"world_size":2,"host":"a","clock_offset_ns":0,
//    "clock_error_ns":0,"at_ns":0}
//       the process began, or went on, before this step
//   [step, wall, forward, backward, exposed communication, waiting for other ranks, optimizer,
//    data wait, other, hidden communication, bytes]
//       a step, in milliseconds (step_record.h)
//   {"kind":"buckets","step":49,"rows":[[ready, launch, start, finish, wait, bytes], ...]}
//       medians of the log interval that ends with this step; null for what did not happen
//   {"kind":"events","step":49,"begin_ns":..,"end_ns":..,"rows":[[activity, thread, bucket, begin,
//    end, bytes], ...]}
//       all spans of a step, nanoseconds after its begin
//   {"kind":"end","step":100, clock as in "start"}
//       training ended as it was meant to
//
// Lines reach the file at the log interval, so a killed run keeps what was before its last. The
// longer a run, the fewer of its steps are written (keeps_line): the file of a million steps has
// some 20 MB.
//
// To be told about a run must not end it: a file that cannot be written is a warning, and no more
// is written.
#pragma once

#include "lockstep/train/clock_offset.h"
#include "lockstep/train/step_record.h"

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

/// "DIRECTORY/steps.rankN.jsonl"
std::string step_log_file(const std::string& directory, int rank);

/// Whether the `index`-th of a kind of lines is written: the first 2 * `budget` all are, of as many
/// again every second, of twice as many every fourth ...
bool keeps_line(int64_t index, int64_t budget);

class StepLog {
 public:
  struct Options {
    std::string directory;
    int rank = 0;
    int world_size = 1;
    int64_t start = 0;  // the first step to come; lines of it and later ones are dropped
    ClockOffset clock = {};
  };

  explicit StepLog(const Options& options);
  ~StepLog();
  StepLog(const StepLog&) = delete;
  StepLog& operator=(const StepLog&) = delete;

  /// A step has ended. Touches no file, and allocates nothing once an interval has gone by.
  void add(const StepSummary& summary, const StepEvents& events);
  /// A log interval has ended, the `interval`-th of the run; `last` holds the events of its last
  /// steps.
  void end_interval(int64_t interval, const std::vector<StepEvents>& last);
  /// The run has ended.
  void end(const ClockOffset& clock);

 private:
  void add_buckets(const StepEvents& events);
  void append_buckets();
  void append_events(const StepEvents& step);
  void write();
  void give_up(const std::string& why);

  std::string path_;
  int fd_ = -1;
  std::string text_;  // not written yet
  int64_t next_step_ = 0;
  std::vector<StepRecord> steps_;      // of this interval
  std::vector<BucketRecord> buckets_;  // of its last kMostSteps steps, one after the other
  std::vector<BucketRecord> latest_;   // of one step
  size_t bucket_count_ = 0;            // of a step
  size_t bucket_steps_ = 0;            // in this interval
  int64_t events_written_ = -1;        // up to this step
};

}  // namespace lockstep
