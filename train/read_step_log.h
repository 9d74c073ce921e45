// steps.rankN.jsonl (step_log.h), read back.
#pragma once

#include "lockstep/train/clock_offset.h"
#include "lockstep/train/step_record.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

struct BucketLine {
  int64_t step = 0;                   // the last of the interval
  std::vector<BucketRecord> buckets;  // medians over it
};

struct RankLog {
  int rank = 0;
  int world_size = 1;
  std::string host;
  std::vector<ClockOffset> clocks;  // at each start and end
  int64_t starts = 0;               // 1 + how often the run was resumed
  bool ended = false;               // as it was meant to
  std::vector<StepRecord> steps;
  std::vector<BucketLine> buckets;
  std::vector<StepEvents> events;  // of some steps
  size_t unreadable = 0;           // lines, but for a last one that its process's death cut short
};

/// Throws IoError that begins with `path` when it cannot be read, is larger than 4 GiB, or does not
/// begin as such a file does; `rank` is what its name says.
RankLog read_step_log(const std::string& path, int rank);

/// The offset of this rank's clock at `ns` of it, from the measurements around it. One that is zero
/// within its error is zero: ranks of one host read one clock.
int64_t clock_offset_at(const std::vector<ClockOffset>& clocks, int64_t ns);

}  // namespace lockstep
