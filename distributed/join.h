// Join: training on ranks that run out of batches at different times, each in a loop of its own.
//
//   Join join(model, group);
//   DataParallel ddp(model, group, join.options({.bucket_cap_mb = 25}));
//   for (...) {  // epochs
//     while (const auto batch = data.next()) {
//       join.step();
//       optimizer.zero_grad();
//       loss(model(*batch)).backward();
//       optimizer.step();
//     }
//     join.finish(ddp, [&] { optimizer.step(); });
//   }
//
// In finish() a rank that has no batch left goes on as a shadow of the others: it takes part in
// their collectives with gradients of zero, and in their optimizer steps, until all have run out.
// The sum is divided by the number of ranks that still have a batch, so a gradient is the mean over
// those. Because shadows take each step as well, parameters, optimizer state and schedules are the
// same on all ranks afterwards, bit for bit.
//
// Ranks tell each other once in a step, in an all-reduce of 4 bytes for each rank, which starts in
// step() and which forward hides. A program without a Join pays for none of this.
//
// The mean over ranks is not the mean over samples where batches differ in size: global_count.h.
#pragma once

#include "lockstep/distributed/comm/process_group.h"
#include "lockstep/distributed/ddp_options.h"
#include "lockstep/distributed/shadow_backward.h"
#include "lockstep/nn/module.h"

#include <cstdint>
#include <functional>
#include <memory>

namespace lockstep {

class Join {
 public:
  /// Both must outlive this; `group` also the DataParallel of options().
  Join(Module& module, ProcessGroup& group);
  /// After step() without finish(), by an exception say, the group is aborted: the other ranks fail
  /// instead of waiting for this one.
  ~Join();
  Join(const Join&) = delete;
  Join& operator=(const Join&) = delete;

  /// `options` for the DataParallel whose backwards are joined: its reduction divides by the number
  /// of ranks that have a batch, and buffers are those of the first such rank. All ways of
  /// averaging and communication hooks work as before; with find_unused_parameters, backward waits
  /// for the exchange of what is used. Throws ArgumentError with static_graph and in local mode.
  DdpOptions options(DdpOptions options) const;

  /// Before the forward of each step that ends in one synchronised backward, with accumulation once
  /// for all its micro-batches: this rank has a batch. Collective with the others' step() and
  /// finish(). Throws ArgumentError for a module with SyncBatchNorm, whose forward communicates.
  void step();

  /// When this rank has no batch left. Collective; returns when no rank has one. What it has
  /// accumulated meanwhile is forgotten. `after_backward`
  /// is what the loop does between a synchronised backward and the next batch, with the gradients
  /// as on the other ranks: clipping, the schedule, the optimizer's step. What else communicates in
  /// the others' loop has to be in it. Returns the number of steps that were shadowed. The next
  /// epoch may follow.
  int64_t finish(DataParallel& ddp, const std::function<void()>& after_backward);

  /// Ranks that had a batch in the step of the last backward; size() before the first.
  int live_ranks() const;

 private:
  class Votes;

  void require_silent_forward();

  Module& module_;
  ProcessGroup& group_;
  std::shared_ptr<Votes> votes_;  // with the options that were made
  bool checked_ = false;
  bool open_ = false;  // step() was called and finish() has not ended
};

}  // namespace lockstep
