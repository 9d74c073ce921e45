// A stream that is a thread with a queue of closures: what is enqueued runs later, in order, beside
// the host. So code that forgets to order two streams, which on a GPU goes wrong once in a while,
// can be made to go wrong every time.
#pragma once

#include "lockstep/tensor/stream.h"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace lockstep::testing {

/// Before each closure the stream sleeps for a random time in [min, max].
struct Delay {
  std::chrono::microseconds min{0};
  std::chrono::microseconds max{0};
};

/// What a stream leaves out, for tests that show that it is needed.
struct LeftOut {
  bool waits = false;       // wait() does nothing
  bool host_waits = false;  // the host takes its events for done at once
};

class SimEvent final : public Event {
 public:
  explicit SimEvent(bool seems_done) : seems_done_(seems_done) {}
  bool done() const override;
  void wait_host() const override;
  int64_t nanoseconds_since(const Event& earlier) const override;

 private:
  friend class SimStream;
  /// Blocks until done; returns what the work before it failed with, if it did.
  std::exception_ptr wait_for_failure() const;
  void happen(std::exception_ptr failure);

  const bool seems_done_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool done_ = false;
  std::exception_ptr failure_;
  std::chrono::steady_clock::time_point time_;
};

/// The closures that a stream has still to run.
class SimQueue {
 public:
  struct Item {
    std::function<void()> run;
    bool is_work = false;  // a kernel or collective: delayed, and skipped after a failure
  };
  /// False, and nothing done, once the queue is closed.
  bool push(Item item);
  /// Blocks; false when the queue is closed and empty.
  bool pop(Item& item);
  void close();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> items_;
  bool closed_ = false;
};

/// Once a closure throws, later ones are skipped and every event that follows carries the failure,
/// also to streams that wait for it. Safe from any thread.
class SimStream final : public Stream {
 public:
  SimStream(Delay delay, uint64_t seed, LeftOut left_out = {});
  /// Runs what is still enqueued.
  ~SimStream() override;
  SimStream(const SimStream&) = delete;
  SimStream& operator=(const SimStream&) = delete;

  void enqueue(std::function<void()> work);
  EventPtr record() override;
  EventPtr record_timed() override { return record(); }
  void wait(const EventPtr& event) override;
  /// The host waits for everything enqueued so far.
  void synchronize() { record()->wait_host(); }
  /// May outlive the stream.
  const std::shared_ptr<SimQueue>& queue() const { return queue_; }

 private:
  void loop(Delay delay, uint64_t seed);

  const LeftOut left_out_;
  std::shared_ptr<SimQueue> queue_ = std::make_shared<SimQueue>();
  std::exception_ptr failure_;  // of the stream's own thread
  std::thread thread_;
};

}  // namespace lockstep::testing
