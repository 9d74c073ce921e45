// Contender: one way to train a model, which takes a step when it is asked to. Benchmarks let
// several of them take turns, because a machine drifts more between minutes than the ways differ.
#pragma once

#include "lockstep/base/timeline.h"
#include "lockstep/bench/workload.h"
#include "lockstep/distributed/comm/process_group.h"
#include "lockstep/distributed/ddp_options.h"
#include "lockstep/train/replica.h"

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep::bench {

/// How gradients are averaged.
struct Way {
  DdpMode mode = DdpMode::kOverlapped;
  double cap_mb = 25;
  std::optional<double> last_cap_mb = std::nullopt;
  int sync_every = 1;  // backwards to a step; all but the last run under no_sync
  bool timeline = true;
  DType precision = DType::kF32;  // of forward, as Autocast takes it
  Device device = Device::cpu();

  /// "overlapped, 25 MB", "naive", "overlapped, 25 MB, every 4th", "local, bf16"
  std::string name() const;
};

struct StepCost {
  StepSummary times;  // zeros without a timeline
  double wall_ms = 0;
  double cpu_ms = 0;  // of all threads of this process
};

class Contender {
 public:
  /// Collective over `group`, which outlives the contender. The batch is this rank's, the same in
  /// each step.
  Contender(const Workload& workload, const Way& way, ProcessGroup& group);

  /// One step of the optimizer, after `sync_every` forwards and backwards. Collective.
  StepCost step();

 private:
  Timeline* timeline() { return timeline_ ? &*timeline_ : nullptr; }
  ReplicaOptions options(const Workload& workload, const Way& way);

  DType precision_;
  std::optional<Timeline> timeline_;
  Batch batch_;
  Replica replica_;
  int64_t step_ = 0;
};

}  // namespace lockstep::bench
