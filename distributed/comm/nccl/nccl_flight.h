// NcclFlight: the operations of a group that its stream has not finished, and why the group has
// failed, if it has. Shared by the group, its works and its watchdog, whoever lives longest.
//
// A work holds its tensors until the stream is past it, also when its caller has dropped it, and
// also when it has failed: an aborted kernel may still be writing.
//
// Threads: every function may be called from any thread.
#pragma once

#include "lockstep/distributed/comm/op_log.h"
#include "lockstep/tensor/device_clock.h"

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace lockstep::comm {

struct NcclWork;

class NcclFlight {
 public:
  explicit NcclFlight(std::shared_ptr<OpLog> log) : log_(std::move(log)) {}

  /// Behind those before it; `work->start` is set. Numbers its op. Throws CommError if the group
  /// has failed.
  void add(const std::shared_ptr<NcclWork>& work);
  /// It is on the stream, before `finish`.
  void issued(NcclWork& work, EventPtr finish);

  /// Notes what has begun and ended on the stream, and lets go of the tensors of what has ended.
  void look();
  /// The oldest operation that has not ended.
  struct Oldest {
    int64_t since_ns = 0;  // when the stream came to it; 0: it has not
    Op op;                 // without tensors
  };
  std::optional<Oldest> oldest() const;

  /// What has not ended by now fails. False if the group has failed before.
  bool fail(const std::string& reason);
  bool failed() const;
  std::string reason() const;
  /// Waits until the stream is past everything, at most so long (max(): as long as it takes), or
  /// `unless_failed` until the group fails. Whether nothing is left.
  bool drain(std::chrono::milliseconds most, bool unless_failed);
  /// Never lets go of what is left.
  void leak();

 private:
  friend struct NcclWork;
  void look_locked();

  const std::shared_ptr<OpLog> log_;
  mutable std::mutex mutex_;
  std::deque<std::shared_ptr<NcclWork>> works_;  // oldest first
  bool failed_ = false;
  std::string reason_;
  // Number 0 is the start of NCCL.
  int64_t sequence_ = 1;
  int64_t collectives_ = 1;
};

struct NcclWork final : Work {
  NcclWork(Op op, std::shared_ptr<NcclFlight> flight, Device device)
      : op(std::move(op)), flight(std::move(flight)), device(device) {}

  void wait() override;
  void wait_host(std::chrono::milliseconds deadline) override;
  bool done() const override;
  Times times() const override;

  Op op;
  const std::shared_ptr<NcclFlight> flight;
  const Device device;
  EventPtr start;
  std::shared_ptr<const DeviceClock::Anchor> anchor;
  // The flight's mutex guards what follows.
  EventPtr finish;  // null: not on the stream yet
  int64_t begun_ns = 0;
  bool over = false;
  bool well = false;

 private:
  /// Throws the operation's error.
  EventPtr finish_or_throw() const;
};

}  // namespace lockstep::comm
