// Losses that are a mean over the samples (or tokens) of all ranks, whose numbers may differ from
// rank to rank: each rank contributes its sum and its count, and N ranks equal one process.
//
//   const Variable sum = cross_entropy(model(x), targets, {.reduction = Reduction::kSum});
//   mean_over_ranks(sum, count, ddp.group()).backward();
//
// DataParallel averages gradients over the ranks, so a rank's share of the mean is its sum times
// N / (count of all ranks). Averaging each rank's own mean instead gives the samples of a small
// batch too much weight: 5 tokens and 1 token would count as 5 / 10 and 1 / 2 instead of 5 / 6 and
// 1 / 6.
//
// All of these are collective, one small all-reduce each; every rank calls them (or begins a
// GlobalCount), also one with a count of 0, when no backward is running. Counts are exact up to
// 2^53. Where a rank's count is negative or not finite every rank throws ArgumentError.
#pragma once

#include "lockstep/autograd/variable.h"
#include "lockstep/distributed/comm/process_group.h"

namespace lockstep {

/// The sum of the ranks' counts, on its way: what is computed before get() hides the exchange.
class GlobalCount {
 public:
  /// Begins it. Collective; `group` outlives this.
  GlobalCount(ProcessGroup& group, double local_count);
  /// The sum, the same bits on every rank; waits for it once.
  double get();

 private:
  ProcessGroup* group_;
  double local_;
  Tensor totals_;  // the counts, and how many of them are bad
  WorkPtr work_;
};

/// The same in one call.
double global_count(ProcessGroup& group, double local_count);

/// N / (count of all ranks), by which each rank scales its sum. For accumulation: with local_count
/// over all micro-batches that this rank accumulates, each of whose sums is scaled by it. Throws
/// ArgumentError on every rank when all counts are 0.
double mean_scale(ProcessGroup& group, double local_count);

/// loss_sum * mean_scale(group, local_count): after DataParallel's backward the gradients are those
/// of one process that divides the sum over all ranks by their count. Its own value, averaged over
/// the ranks, is that mean.
Variable mean_over_ranks(const Variable& loss_sum, double local_count, ProcessGroup& group);

}  // namespace lockstep
