#include "lockstep/distributed/comm/queued_group.h"

#include "lockstep/base/failpoint.h"
#include "lockstep/base/thread_signals.h"

#include <numeric>

namespace lockstep::comm {

void QueuedWork::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return done_; });
  if (error_) throw CommError(*error_);
}

void QueuedWork::wait_host(std::chrono::milliseconds deadline) {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, deadline, [this] { return done_; })) {
    throw CommError(str("Work::wait_host: ", describe(op_.signature), " has not ended within ",
                        deadline.count(), " ms"));
  }
  if (error_) throw CommError(*error_);
}

bool QueuedWork::done() const {
  const std::lock_guard lock(mutex_);
  return done_;
}

Work::Times QueuedWork::times() const {
  const std::lock_guard lock(mutex_);
  return times_;
}

void QueuedWork::complete(std::optional<std::string> error) {
  const int64_t now = steady_now_ns();
  op_.out = Tensor();
  op_.in = Tensor();
  const std::lock_guard lock(mutex_);
  times_ = {op_.start_ns, op_.finish_ns != 0 ? op_.finish_ns : now};
  error_ = std::move(error);
  done_ = true;
  changed_.notify_all();
}

void QueuedGroup::collect_logs(LogCollection& into) const {
  if (log_ == nullptr) return;
  std::vector<int> ranks(static_cast<size_t>(size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  into.groups.push_back({backend(), rank(), std::move(ranks), log_});
}

void QueuedGroup::started(Op& op) {
  op.start_ns = steady_now_ns();
  if (log_) log_->started(op);
}

void QueuedGroup::start() {
  worker_ = thread_without_signals([this] { work_loop(); });
}

void QueuedGroup::stop() {
  bool in_flight = false;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    in_flight = busy_ || !queue_.empty();
  }
  if (in_flight) {
    fail(str("rank ", rank(),
             " destroyed its group with operations in flight; wait for them first"));
  }
  wake_.notify_all();
  if (worker_.joinable()) worker_.join();
}

WorkPtr QueuedGroup::submit(Op op) {
  op.label = OpLabel::current();
  op.queued_ns = steady_now_ns();
  auto work = std::make_shared<QueuedWork>(std::move(op));
  {
    const std::lock_guard lock(mutex_);
    if (failed_) {
      throw CommError(
          str(describe(work->op().signature), ": the group has failed already: ", reason_));
    }
    work->op().sequence = sequence_++;
    work->op().collective = work->op().point_to_point() ? collectives_ : collectives_++;
    if (log_) log_->queued(work->op());
    queue_.push_back(work);
  }
  wake_.notify_one();
  return work;
}

void QueuedGroup::work_loop() {
  for (;;) {
    std::shared_ptr<QueuedWork> work;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
      if (queue_.empty()) return;
      work = std::move(queue_.front());
      queue_.pop_front();
      busy_ = true;
    }
    std::optional<std::string> error;
    if (log_) log_->begun(work->op());
    try {
      const OpLabel label(work->op().label);  // of what run() issues in turn
      failpoint("queued_group.before_run");
      run(work->op());
    } catch (const std::exception& e) {
      error = e.what();
    }
    // First the group, then the work: whoever has seen the work fail must find the group failed.
    if (error) fail(*error);
    if (log_) log_->finished(work->op(), !error);
    {
      const std::lock_guard lock(mutex_);
      busy_ = false;
      if (error) error = reason_;  // what the group failed of first
    }
    work->complete(std::move(error));
  }
}

void QueuedGroup::fail(std::string reason) {
  std::deque<std::shared_ptr<QueuedWork>> pending;
  {
    const std::lock_guard lock(mutex_);
    if (failed_) return;
    failed_ = true;
    reason_ = reason;
    pending.swap(queue_);
  }
  if (log_) log_->group_failed(reason);
  interrupt(reason);
  for (const auto& work : pending) {
    if (log_) log_->finished(work->op(), false);
    work->complete(reason);
  }
}

}  // namespace lockstep::comm
