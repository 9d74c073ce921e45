// Small training runs with ranks as threads, for tests of the trainer: a crash is an exception
// thrown out of a batch.
#pragma once

#include "lockstep/base/error.h"
#include "lockstep/train/trainer.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace lockstep::testing {

/// What is trained, and how it ends.
struct Setup {
  int ranks = 2;
  int64_t batch_size = 32;
  int64_t epochs = 3;
  int64_t accumulate = 1;
  LastBatch last_batch = LastBatch::kDrop;
  int64_t log_interval = 3;
  int64_t checkpoint_every = 4;
  double lr = 0.02;
  std::string dir = {};
  int64_t crash_at_batch = -1;  // rank 0 throws in its n-th batch
  bool resume = false;
  int ask_rank = -1;  // who is asked to stop, by SIGTERM; -1: nobody, and nobody listens either
  int64_t ask_at_batch = -1;             // in its n-th batch of training from where it starts
  int64_t ask_at_test_batch = -1;        // or of evaluation
  int spoil_rank = -1;                   // whose gradient of conv.weight is not finite
  int64_t spoil_from = 0, spoil_to = 0;  // in these of its backwards, the end excluded
  NonfiniteOptions nonfinite = {};
  double checkpoint_minutes = 0;
  double agree_seconds = 0;  // so that it is known in which step a rank is heard
  int64_t keep_checkpoints = 0;
  std::function<SaveTimer::Now(int rank)> clock = nullptr;  // of each rank; null: the machine's
  double first_cap_mb = 1;
  std::string comm_hook = {};
  DdpMode mode = DdpMode::kOverlapped;
  std::string link = {};  // emulated: "1gbit"
  int64_t max_steps = 0;
  int64_t evaluate_every = 0;
  bool evaluate_first = false;
  BestBy best_by = BestBy::kAccuracy;
  Device device = Device::cpu();  // or the simulated one
  int64_t check_replicas_every = 0;
  bool plain = false;  // no noise and no batch statistics: every split of a batch is the same
};

struct Crash : Error {
  using Error::Error;
};

struct Outcome {
  TrainResult result;
  int64_t resumed_step = 0;
  int64_t steps_per_epoch = 0;
};

/// Rank 0's outcome. Throws unless all ranks end with the same weights.
Outcome train(const Setup& setup);

/// The training losses that metrics.jsonl holds.
std::vector<double> losses(const std::string& dir);

}  // namespace lockstep::testing
