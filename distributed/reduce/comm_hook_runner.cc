#include "lockstep/distributed/reduce/comm_hook_runner.h"

#include "lockstep/base/thread_signals.h"
#include "lockstep/base/timeline.h"
#include "lockstep/distributed/reduce/bucket_label.h"
#include "lockstep/tensor/stream.h"

#include <omp.h>

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

namespace lockstep {
namespace {

using std::chrono::steady_clock;

/// One bucket on its way through the hook.
class HookWork final : public Work {
 public:
  /// In the thread whose kernels produce the gradients.
  explicit HookWork(const GradBucket& bucket)
      : bucket_(bucket),
        device_(bucket.flat.device()),
        produced_(current_stream(device_).record()) {}

  const GradBucket& bucket() const { return bucket_; }

  /// In the hook's thread; throws what the hook throws. The work is complete only after complete().
  void run(CommHook& hook, ProcessGroup& group) {
    current_stream(device_).wait(produced_);
    const OpLabel label(bucket_label(bucket_));
    const int64_t start = Timeline::now_ns();
    bytes_sent_ = hook.reduce(bucket_, group);
    times_ = {start, Timeline::now_ns()};
    finished_ = current_stream(device_).record();
  }

  void complete() {
    const std::lock_guard lock(mutex_);
    returned_ = true;
    changed_.notify_all();
  }

  void fail(std::exception_ptr error, const std::string& what) {
    const std::lock_guard lock(mutex_);
    error_ = std::move(error);
    failure_ = what;
    returned_ = true;
    changed_.notify_all();
  }

  void wait() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return returned_; });
    throw_failure();
    current_stream(device_).wait(finished_);
  }

  void wait_host(std::chrono::milliseconds deadline) override {
    const auto end = steady_clock::now() + deadline;
    {
      std::unique_lock lock(mutex_);
      changed_.wait_until(lock, end, [this] { return returned_; });
      throw_failure();
    }
    while (!done()) {
      if (steady_clock::now() >= end) {
        throw CommError(str("Work::wait_host: the communication hook has not ended with bucket ",
                            bucket_.index, " within ", deadline.count(), " ms"));
      }
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

  bool done() const override {
    const std::lock_guard lock(mutex_);
    return returned_ && (failure_ || finished_->done());
  }
  Times times() const override {
    const std::lock_guard lock(mutex_);
    return times_;
  }
  int64_t bytes_sent() const override {
    const std::lock_guard lock(mutex_);
    return bytes_sent_;
  }

 private:
  /// The exception itself goes to the first who asks, so that no two threads share the object;
  /// later ones get its words.
  void throw_failure() {
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
    if (failure_) throw CommError(*failure_);
  }

  const GradBucket& bucket_;
  const Device device_;
  const EventPtr produced_;
  // The hook's thread's until returned_.
  EventPtr finished_;  // where the hook's last kernel ends
  Times times_;
  int64_t bytes_sent_ = -1;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool returned_ = false;
  std::exception_ptr error_;
  std::optional<std::string> failure_;
};

class Runner {
 public:
  Runner(std::shared_ptr<CommHook> hook, ProcessGroup& group)
      : hook_(std::move(hook)), group_(group) {
    worker_ = thread_without_signals([this] { work_loop(); });
  }

  ~Runner() {
    bool in_flight = false;
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      in_flight = busy_ || !queue_.empty();
    }
    if (in_flight) {
      fail(str("rank ", group_.rank(),
               " destroyed its communication hook with buckets in flight; wait for them first"));
    }
    wake_.notify_all();
    worker_.join();
  }

  WorkPtr start(const GradBucket& bucket) {
    auto work = std::make_shared<HookWork>(bucket);
    {
      const std::lock_guard lock(mutex_);
      if (!failure_) {
        queue_.push_back(work);
      } else {
        // Not thrown here, in the middle of backward: whoever waits for the buckets in order meets
        // the one that failed, with its own exception.
        work->fail(nullptr, str("communication hook: it has failed already: ", *failure_));
      }
    }
    wake_.notify_one();
    return work;
  }

 private:
  void work_loop() {
    omp_set_num_threads(1);  // of this thread alone
    for (;;) {
      std::shared_ptr<HookWork> work;
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
        if (queue_.empty()) return;
        work = std::move(queue_.front());
        queue_.pop_front();
        busy_ = true;
      }
      std::exception_ptr error;
      std::string what = "an exception that is no std::exception";
      try {
        work->run(*hook_, group_);
      } catch (const std::exception& e) {
        error = std::current_exception();
        what = e.what();
      } catch (...) {
        error = std::current_exception();
      }
      // First the group, then the work: whoever has seen the work fail must find the group failed.
      if (error) {
        fail(str("rank ", group_.rank(), ": the communication hook failed on bucket ",
                 work->bucket().index, ": ", what));
      }
      {
        const std::lock_guard lock(mutex_);
        busy_ = false;
      }
      if (error) {
        work->fail(std::move(error), what);
      } else {
        work->complete();
      }
    }
  }

  void fail(const std::string& reason) {
    std::deque<std::shared_ptr<HookWork>> pending;
    {
      const std::lock_guard lock(mutex_);
      if (failure_) return;
      failure_ = reason;
      pending.swap(queue_);
    }
    group_.abort(reason);
    for (const auto& work : pending) work->fail(nullptr, reason);
  }

  const std::shared_ptr<CommHook> hook_;
  ProcessGroup& group_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::shared_ptr<HookWork>> queue_;
  bool busy_ = false;
  bool stopping_ = false;
  std::optional<std::string> failure_;
  std::thread worker_;
};

}  // namespace

BucketReduction run_comm_hook(std::shared_ptr<CommHook> hook, ProcessGroup& group) {
  check(hook != nullptr, "run_comm_hook: wanted a hook, got null");
  const auto runner = std::make_shared<Runner>(std::move(hook), group);
  return [runner](const GradBucket& bucket) { return runner->start(bucket); };
}

}  // namespace lockstep
