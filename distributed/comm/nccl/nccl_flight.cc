#include "lockstep/distributed/comm/nccl/nccl_flight.h"

#include "lockstep/base/error.h"

#include <thread>
#include <utility>

namespace lockstep::comm {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

void pause(int looks) { std::this_thread::sleep_for(microseconds(looks < 100 ? 20 : 200)); }

}  // namespace

void NcclFlight::add(const std::shared_ptr<NcclWork>& work) {
  const std::lock_guard lock(mutex_);
  Op& op = work->op;
  if (failed_) throw CommError(str(describe(op), ": the group has failed already: ", reason_));
  look_locked();
  op.sequence = sequence_++;
  op.collective = op.point_to_point() ? collectives_ : collectives_++;
  log_->queued(op);
  works_.push_back(work);
}

void NcclFlight::issued(NcclWork& work, EventPtr finish) {
  const std::lock_guard lock(mutex_);
  work.finish = std::move(finish);
}

void NcclFlight::look() {
  const std::lock_guard lock(mutex_);
  look_locked();
}

void NcclFlight::look_locked() {
  for (; !works_.empty(); works_.pop_front()) {
    NcclWork& work = *works_.front();
    const bool ended = work.finish != nullptr && work.finish->done();
    if (!work.over && work.begun_ns == 0 && (ended || work.start->done())) {
      work.begun_ns = steady_now_ns();
      log_->begun(work.op);
    }
    if (!ended) return;
    if (!work.over) {
      work.over = work.well = true;
      log_->finished(work.op, true);
    }
    work.op.out = Tensor();
    work.op.in = Tensor();
  }
}

std::optional<NcclFlight::Oldest> NcclFlight::oldest() const {
  const std::lock_guard lock(mutex_);
  if (works_.empty() || works_.front()->over) return std::nullopt;
  const NcclWork& work = *works_.front();
  Oldest oldest{work.begun_ns, {}};
  oldest.op.signature = work.op.signature;
  oldest.op.sequence = work.op.sequence;
  oldest.op.collective = work.op.collective;
  oldest.op.label = work.op.label;
  return oldest;
}

bool NcclFlight::fail(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (failed_) return false;
  try {
    look_locked();
  } catch (const std::exception&) {
    // The device itself has failed: nothing will end well any more.
  }
  failed_ = true;
  reason_ = reason;
  for (const auto& work : works_) {
    work->over = true;
    log_->finished(work->op, false);
  }
  return true;
}

bool NcclFlight::failed() const {
  const std::lock_guard lock(mutex_);
  return failed_;
}

std::string NcclFlight::reason() const {
  const std::lock_guard lock(mutex_);
  return reason_;
}

bool NcclFlight::drain(milliseconds most, bool unless_failed) {
  const auto end = steady_clock::now() + most;
  for (int looks = 0;; ++looks) {
    try {
      const std::lock_guard lock(mutex_);
      if (unless_failed && failed_) return false;
      look_locked();
      if (works_.empty()) return true;
    } catch (const std::exception&) {
      return false;  // the device itself has failed
    }
    if (steady_clock::now() >= end) return false;
    pause(looks);
  }
}

void NcclFlight::leak() {
  const std::lock_guard lock(mutex_);
  new auto(std::move(works_));
  works_.clear();
}

EventPtr NcclWork::finish_or_throw() const {
  const std::lock_guard lock(flight->mutex_);
  if (over && !well) throw CommError(flight->reason_);
  return finish;
}

void NcclWork::wait() {
  const EventPtr end = finish_or_throw();
  if (op.kind() != OpKind::kBarrier) return current_stream(device).wait(end);
  // Whoever waits for a barrier wants to know that the others have come, not their streams.
  wait_host(milliseconds(std::chrono::hours(24 * 365)));
}

void NcclWork::wait_host(milliseconds deadline) {
  const auto end = steady_clock::now() + deadline;
  for (int looks = 0; !finish_or_throw()->done(); ++looks) {
    if (steady_clock::now() >= end) {
      throw CommError(str("Work::wait_host: ", describe(op.signature), " has not ended within ",
                          deadline.count(), " ms"));
    }
    pause(looks);
  }
  finish_or_throw();  // an abort ends it as well
}

bool NcclWork::done() const {
  const std::lock_guard lock(flight->mutex_);
  return over || (finish != nullptr && finish->done());
}

Work::Times NcclWork::times() const {
  const std::lock_guard lock(flight->mutex_);
  if (finish == nullptr || !finish->done() || (over && !well)) return {};
  const int64_t from = anchor->steady_ns_of(*start);
  return {from, from + finish->nanoseconds_since(*start)};
}

}  // namespace lockstep::comm
