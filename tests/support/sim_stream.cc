#include "lockstep/tests/support/sim_stream.h"

#include "lockstep/base/error.h"

#include <random>
#include <utility>

namespace lockstep::testing {

bool SimEvent::done() const {
  std::lock_guard lock(mutex_);
  return done_ || seems_done_;
}

std::exception_ptr SimEvent::wait_for_failure() const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return done_; });
  return failure_;
}

void SimEvent::wait_host() const {
  if (seems_done_) return;
  if (const std::exception_ptr failure = wait_for_failure()) std::rethrow_exception(failure);
}

int64_t SimEvent::nanoseconds_since(const Event& earlier) const {
  if (this == &earlier) return 0;
  const auto& from = static_cast<const SimEvent&>(earlier);
  const std::scoped_lock lock(mutex_, from.mutex_);
  if (!done_ || !from.done_) throw ArgumentError("SimEvent: the time of an event that is not done");
  return std::chrono::nanoseconds(time_ - from.time_).count();
}

void SimEvent::happen(std::exception_ptr failure) {
  std::lock_guard lock(mutex_);
  done_ = true;
  time_ = std::chrono::steady_clock::now();
  failure_ = std::move(failure);
  changed_.notify_all();
}

bool SimQueue::push(Item item) {
  std::lock_guard lock(mutex_);
  if (closed_) return false;
  items_.push_back(std::move(item));
  changed_.notify_all();
  return true;
}

bool SimQueue::pop(Item& item) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return closed_ || !items_.empty(); });
  if (items_.empty()) return false;
  item = std::move(items_.front());
  items_.pop_front();
  return true;
}

void SimQueue::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  changed_.notify_all();
}

SimStream::SimStream(Delay delay, uint64_t seed, LeftOut left_out)
    : left_out_(left_out), thread_([=, this] { loop(delay, seed); }) {}

SimStream::~SimStream() {
  queue_->close();
  thread_.join();
}

void SimStream::enqueue(std::function<void()> work) { queue_->push({std::move(work), true}); }

EventPtr SimStream::record() {
  auto event = std::make_shared<SimEvent>(left_out_.host_waits);
  queue_->push({[this, event] { event->happen(failure_); }});
  return event;
}

void SimStream::wait(const EventPtr& event) {
  if (left_out_.waits) return;
  queue_->push({[this, event] {
    const auto failure = static_cast<const SimEvent&>(*event).wait_for_failure();
    if (failure_ == nullptr) failure_ = failure;
  }});
}

void SimStream::loop(Delay delay, uint64_t seed) {
  std::minstd_rand random(static_cast<unsigned>(seed));
  std::uniform_int_distribution<int64_t> sleep_us(delay.min.count(), delay.max.count());
  for (SimQueue::Item item; queue_->pop(item); item.run = nullptr) {
    if (!item.is_work) {
      item.run();
    } else if (failure_ == nullptr) {
      const std::chrono::microseconds pause(sleep_us(random));
      if (pause.count() > 0) std::this_thread::sleep_for(pause);
      try {
        item.run();
      } catch (...) {
        failure_ = std::current_exception();
      }
    }
  }
}

}  // namespace lockstep::testing
