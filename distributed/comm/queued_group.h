// QueuedGroup: a group whose operations block, run one after the other by one worker thread.
//
// Ownership: the queue owns the works; a caller's WorkPtr shares them. The worker holds no lock
// while it runs an operation. A derived class calls start() at the end of its constructor and
// stop() first in its destructor, because the worker calls its virtual functions.
#pragma once

#include "lockstep/distributed/comm/group_base.h"
#include "lockstep/distributed/comm/op_log.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>

namespace lockstep::comm {

/// A Work that a worker completes.
class QueuedWork : public Work {
 public:
  explicit QueuedWork(Op op) : op_(std::move(op)) {}

  void wait() override;
  void wait_host(std::chrono::milliseconds deadline) override;
  bool done() const override;
  Times times() const override;

  Op& op() { return op_; }
  /// Called once; without an error it is a success. Lets go of the tensors.
  void complete(std::optional<std::string> error);

 private:
  Op op_;  // the worker's until done_
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  // The words and not the exception: each waiting thread throws one of its own.
  std::optional<std::string> error_;
  Times times_;
};

class QueuedGroup : public GroupBase, public OpLogSource {
 public:
  /// `logs`: false for a group that writes nothing down.
  QueuedGroup(int rank, int size, bool logs = true)
      : GroupBase(rank, size), log_(logs ? std::make_shared<OpLog>() : nullptr) {}

  void abort(std::string reason) final { fail(std::move(reason)); }
  void collect_logs(LogCollection& into) const override;

 protected:
  /// Runs one operation to its end, in the worker's thread; sets op.start_ns, by started() where
  /// it can. What it throws ends the group, and is the operation's error unless the group has
  /// failed before.
  virtual void run(Op& op) = 0;
  /// Makes a run() in progress throw soon, and the peers notice. Called once at most, from any
  /// thread.
  virtual void interrupt(const std::string& reason) = 0;

  /// All ranks are there, the transfer begins.
  void started(Op& op);
  const std::shared_ptr<OpLog>& log() const { return log_; }

  void start();
  /// Operations that have not ended fail; returns once the worker has ended.
  void stop();

  WorkPtr submit(Op op) final;

 private:
  void work_loop();
  void fail(std::string reason);

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::shared_ptr<QueuedWork>> queue_;
  bool busy_ = false;
  bool stopping_ = false;
  bool failed_ = false;
  std::string reason_;
  int64_t sequence_ = 0;
  int64_t collectives_ = 0;
  const std::shared_ptr<OpLog> log_;  // may be null
  std::thread worker_;
};

}  // namespace lockstep::comm
