// verify: does data-parallel training of a model do what it promises? Trains the model for a few
// steps in every mode at once, on data of the caller's, and compares after each step:
//
//   - gradients are finite on every rank before they are summed;
//   - the replicas are equal bit for bit, parameters and buffers;
//   - naive, bucketed and overlapped come to the same parameters;
//   - N ranks come to the same parameters as one process.
//
// What one process is depends on the model. Batch normalisation takes its statistics over what a
// rank holds, so N ranks are not one process with the whole batch; they are one process that takes
// the ranks' shares one after the other, adds their gradients up and steps once. That is compared,
// and for the first steps, with SyncBN where there is batch normalisation, the whole batch besides.
//
// What is added in the same order has to be the same bit for bit: over threads, over canonical
// groups, and for two ranks. Elsewhere, and for the whole batch, numbers are f64, for in f32 the
// rounding of a sum carries an activation across the kink of a ReLU every few steps, which changes
// gradients by per cents. As much may differ then as `kVerifyMargin` times what another order of
// the samples, or of the shares, changes in one process by the same step.
#pragma once

#include "lockstep/distributed/comm/wrap_process_group.h"
#include "lockstep/train/replica.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace lockstep {

inline constexpr double kVerifyMargin = 32;

/// A fresh model, the same bits each time. Called on every rank, once for each mode and reference,
/// by several threads at once.
using VerifyModel = std::function<LossModel()>;
/// What `rank` trains on in micro-batch `micro` of `step`: all shares of a step have as many
/// samples. Depends on its arguments alone; called by several threads at once.
using VerifyBatch = std::function<Batch(int64_t step, int64_t micro, int rank)>;

struct VerifyOptions {
  int ranks = 3;
  int64_t steps = 8;
  int64_t micro_batches = 1;
  OptimizerMaker optimizer = {};  // none: SGD, rate 0.05, momentum 0.9
  double clip_grad_norm = std::numeric_limits<double>::infinity();
  std::vector<DdpMode> modes = {DdpMode::kNaive, DdpMode::kBucketed, DdpMode::kOverlapped};
  /// Without `mode` and `reduction`.
  DdpOptions ddp = {};
  /// Caps are chosen so that there are several buckets, whatever `ddp` says.
  bool several_buckets = true;
  /// What a bucket's reduction is, of each replica; none: all_reduce.
  std::function<BucketReduction(ProcessGroup&)> reduction = {};
  /// It does not give the mean of the gradients, so no comparison with one process.
  bool lossy = false;
  /// Called once a replica of this mode is wrapped: adopt a plan.
  std::function<void(DdpMode, DataParallel&)> wrapped = {};
  GroupOptions group = {};
  bool sync_batch_norm = false;
  /// Steps that are compared with the whole batch, in f64; 0 for models that draw random numbers,
  /// such as dropout's: one process draws others for the whole batch.
  int64_t whole_batch_steps = 2;
  bool f64 = false;  // in everything: the model and floating inputs are converted
  std::vector<Fault> faults = {};
  /// Random delays up to this between gradients, and over threads in each collective.
  std::chrono::microseconds delays{200};
  std::chrono::milliseconds timeout{60'000};         // of a collective, over threads
  std::function<void(int64_t steps)> progress = {};  // on rank 0, with the steps that are done
};

struct VerifyCheck {
  std::string what;
  int64_t steps = 0;         // that held
  double difference = 0;     // relative, the largest of them; infinite for NaN
  double allowed = 0;        // there; 0: bit for bit
  std::string where = {};    // its parameter
  std::string skipped = {};  // why it is not made; empty: it is
};

struct VerifyReport {
  std::vector<VerifyCheck> checks;  // rank 0's
  bool passed = false;
  /// "PASS largest difference 3.1e-7 (layer3.0.conv1.weight)", or FAIL and what, with the first
  /// parameter, the step (from 1; 0: before the first) and the rank that differ.
  std::string verdict;

  /// The checks as lines of a table, ending with a line break.
  std::string table() const;
};

/// Over threads. Throws ArgumentError for options that make no sense; what goes wrong in training
/// is in the report.
VerifyReport verify(const VerifyModel& model, const VerifyBatch& batch,
                    const VerifyOptions& options = {});

/// Collective, over a group of the caller's: processes. `options.ranks` and `timeout` do not count.
/// `passed` is the same on every rank unless the group fails.
VerifyReport verify_on(ProcessGroup& group, const VerifyModel& model, const VerifyBatch& batch,
                       const VerifyOptions& options = {});

}  // namespace lockstep
