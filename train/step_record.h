// What is recorded of a training step: where its time went, and when each bucket was ready,
// launched, travelling and waited for.
#pragma once

#include "lockstep/base/timeline.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace lockstep {

/// The parts of a step. The first kStepParts names exclude each other and are its whole time.
enum class StepPart : uint8_t {
  kForward,
  kBackward,  // without its waits
  kExposed,   // communication beside which this rank did not compute
  kPeerWait,  // waiting for communication while none ran: for ranks that are not there yet
  kOptimizer,
  kDataWait,
  kGraph,  // a step that was captured: forward, backward and optimizer in one
};
inline constexpr size_t kStepParts = 7;

/// "forward", "exposed communication", ...
const char* name_of(StepPart part);

/// Milliseconds, but for the last.
struct StepRecord {
  int64_t step = 0;
  double wall = 0;
  std::array<double, kStepParts> parts{};
  double other = 0;   // between the parts; nothing is meant to be there
  double hidden = 0;  // communication beside which this rank computed
  double bytes = 0;   // that this rank handed to the group for its gradients

  double of(StepPart part) const { return parts[static_cast<size_t>(part)]; }
};

StepRecord record_of(const StepSummary& summary);

/// By how much the parts miss the step's wall time, as a fraction of it: what no part covers, or
/// what two parts both claim. 0 for an empty step.
double unaccounted(const StepRecord& step);
/// More than this is worth a word.
inline constexpr double kMostUnaccounted = 0.01;

inline constexpr double kNever = std::numeric_limits<double>::quiet_NaN();

/// Milliseconds since the step's last backward began; kNever for what did not happen.
struct BucketRecord {
  double ready = kNever;                   // its last gradient was complete
  double launch = kNever;                  // it was handed to the process group
  double start = kNever, finish = kNever;  // of its transfer
  double wait = kNever;                    // how long the end of backward waited for it
  double bytes = kNever;                   // that this rank sent
};

/// Of each bucket, by its index. `out` is overwritten; its memory is reused.
void bucket_records(const StepEvents& step, std::vector<BucketRecord>& out);

/// The median, the mean of the two in the middle; NaNs are left out, kNever when nothing is left.
/// The order of `values` changes.
double median(std::vector<double>& values);

}  // namespace lockstep
