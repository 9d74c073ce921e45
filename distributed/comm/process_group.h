// The interface of collective communication. A ProcessGroup is one rank's end of a group of ranks,
// which may be processes (gloo_group.h, nccl/nccl_group.h), threads (thread_group.h), this process
// alone (single_group.h), or another group with something in between (wrap_process_group.h).
//
// Order: every rank issues the operations of one group in the same order; they run in that order,
// one after the other, beside the caller, but for round_robin_group.h, where those on different
// memory may overlap. What the ranks call is compared, but for NCCL, where time runs out: a
// difference in the operation, the dtype or the number of elements throws CommError on every rank
// and names both calls.
//
// Failure: the first error of a group is final. Operations in flight fail with it, and each later
// call throws at once.
//
// Threads: one thread at a time issues operations; abort() and everything of Work may be called
// from any thread.
#pragma once

#include "lockstep/tensor/tensor.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

namespace lockstep {

enum class ReduceOp { kSum, kMax, kMin };

/// An operation that was issued. It keeps its tensors alive; their elements must not be touched
/// until it is waited for.
class Work {
 public:
  /// Steady-clock nanoseconds of the transfer itself, without the time in the queue and without
  /// waiting for the others to arrive.
  struct Times {
    int64_t start_ns = 0;
    int64_t finish_ns = 0;
  };

  virtual ~Work() = default;

  /// Stream-ordered: what the caller's stream does next comes after the operation. On the CPU that
  /// is a blocking wait. Throws the operation's error: CommError if a peer was lost, late, or
  /// called something else.
  virtual void wait() = 0;
  /// Blocks the host until the operation is complete; throws CommError after `deadline`, which
  /// leaves the operation in flight, or the operation's error.
  virtual void wait_host(std::chrono::milliseconds deadline) = 0;
  /// Whether it has ended, well or not.
  virtual bool done() const = 0;
  /// Valid once done() and not failed.
  virtual Times times() const = 0;
  /// Bytes that this rank handed to the group, once done(), where they are not the tensor's
  /// (compression); -1: they are.
  virtual int64_t bytes_sent() const { return -1; }
};

using WorkPtr = std::shared_ptr<Work>;

/// Tensors are dense, of any dtype, on the host unless the backend takes others; zero elements are
/// allowed. A wrong argument throws ArgumentError from the call itself, on this rank alone.
class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// "threads", "gloo", "nccl", "single"; a group over one: "emulated 1 Gbit/s, 0 us over gloo".
  virtual const char* backend() const = 0;

  /// In place: tensor[i] = op over the ranks of tensor[i]. Every rank receives the same bits, and
  /// the same inputs give the same bits in every run.
  virtual WorkPtr all_reduce(Tensor tensor, ReduceOp op = ReduceOp::kSum) = 0;
  /// In place: the elements of rank `root`, on every rank.
  virtual WorkPtr broadcast(Tensor tensor, int root) = 0;
  /// out (size * n elements) = the `in` (n elements) of rank 0, 1, ...
  virtual WorkPtr all_gather(Tensor out, Tensor in) = 0;
  /// out (n elements) = part rank() of the reduction of the `in` (size * n elements). `in` is not
  /// changed.
  virtual WorkPtr reduce_scatter(Tensor out, Tensor in, ReduceOp op = ReduceOp::kSum) = 0;
  /// Part r (n elements) of `out` (size * n) = part rank() of the `in` of rank r.
  virtual WorkPtr all_to_all(Tensor out, Tensor in) = 0;
  /// To and from one other rank. A send ends when its receive has taken it, and later operations of
  /// this group wait behind it: two ranks that both send first and receive second wait for each
  /// other. Use all_to_all for exchanges.
  virtual WorkPtr send(Tensor tensor, int to) = 0;
  virtual WorkPtr recv(Tensor tensor, int from) = 0;
  /// Complete when every rank has reached it.
  virtual WorkPtr barrier() = 0;

  /// Collective and blocking: the ranks that give the same `color` form a new group, ranked by
  /// `key`, then by their rank here. A negative color takes part but joins no group: the result is
  /// null.
  virtual std::unique_ptr<ProcessGroup> split(int color, int key) = 0;

  /// Ends the group on every rank: operations in flight and later ones throw CommError with
  /// `reason` (on ranks that are other processes within words of their own). Does nothing if it has
  /// failed already.
  virtual void abort(std::string reason) = 0;

  ProcessGroup() = default;
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;
};

}  // namespace lockstep
