#include "lockstep/distributed/comm/op_log.h"

namespace lockstep::comm {

const char* name_of(OpState state) {
  switch (state) {
    case OpState::kQueued:
      return "queued";
    case OpState::kWaiting:
      return "waiting";
    case OpState::kMoving:
      return "moving";
    case OpState::kDone:
      return "done";
    case OpState::kFailed:
      return "failed";
  }
  return "unknown";
}

std::string describe(const OpRecord& record) { return describe(record.signature, record.label); }

namespace {

OpRecord record_of(const Op& op) {
  OpRecord record;
  record.sequence = op.sequence;
  record.collective = op.collective;
  record.signature = op.signature;
  record.label = op.label;
  record.queued_ns = op.queued_ns;
  return record;
}

}  // namespace

/// The operation's place; a queue that is longer than the ring has overwritten it.
OpRecord& OpLog::slot(const Op& op) {
  OpRecord& record = ring_[static_cast<size_t>(op.sequence) % ring_.size()];
  if (record.sequence < op.sequence) record = record_of(op);
  return record;
}

void OpLog::queued(const Op& op) {
  const std::lock_guard lock(mutex_);
  slot(op);
}

void OpLog::begun(const Op& op) {
  const int64_t now = steady_now_ns();
  const std::lock_guard lock(mutex_);
  OpRecord& running = progress_.running.emplace(record_of(op));
  running.state = OpState::kWaiting;
  running.begun_ns = now;
  if (OpRecord& record = slot(op); record.sequence == op.sequence) record = running;
}

void OpLog::started(const Op& op) {
  const std::lock_guard lock(mutex_);
  if (!progress_.running || progress_.running->sequence != op.sequence) return;
  progress_.running->state = OpState::kMoving;
  progress_.running->started_ns = op.start_ns;
  if (OpRecord& record = slot(op); record.sequence == op.sequence) record = *progress_.running;
}

void OpLog::finished(const Op& op, bool well) {
  const int64_t now = steady_now_ns();
  const std::lock_guard lock(mutex_);
  const bool ran = progress_.running && progress_.running->sequence == op.sequence;
  OpRecord record = ran ? *progress_.running : record_of(op);
  record.state = well ? OpState::kDone : OpState::kFailed;
  record.finished_ns = now;
  if (OpRecord& kept = slot(op); kept.sequence == op.sequence) kept = record;
  if (!ran) return;  // it failed in the queue
  progress_.running.reset();
  if (well && !record.point_to_point()) progress_.collectives = record.collective + 1;
  progress_.last = record;
}

void OpLog::group_failed(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (failure_.empty()) failure_ = why;
}

OpProgress OpLog::progress() const {
  const std::lock_guard lock(mutex_);
  return progress_;
}

std::vector<OpRecord> OpLog::records() const {
  const std::lock_guard lock(mutex_);
  std::vector<OpRecord> records;
  size_t oldest = 0;
  for (size_t i = 1; i < ring_.size(); ++i) {
    if (ring_[i].sequence < ring_[oldest].sequence) oldest = i;
  }
  for (size_t i = 0; i < ring_.size(); ++i) {
    const OpRecord& record = ring_[(oldest + i) % ring_.size()];
    if (record.sequence >= 0) records.push_back(record);
  }
  return records;
}

std::string OpLog::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

}  // namespace lockstep::comm
