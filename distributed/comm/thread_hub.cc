#include "lockstep/distributed/comm/thread_hub.h"

#include <cstring>

namespace lockstep::comm {
namespace {

std::string list_ranks(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(ranks[i]);
  return text;
}

}  // namespace

ThreadHub::ThreadHub(int size, std::chrono::milliseconds timeout)
    : timeout_(timeout),
      slots_(static_cast<size_t>(size)),
      present_(static_cast<size_t>(size)),
      left_(static_cast<size_t>(size)),
      mail_(static_cast<size_t>(size) * static_cast<size_t>(size)) {}

template <class Ready, class Awaited>
void ThreadHub::wait(std::unique_lock<std::mutex>& lock, const Op& op, Ready ready,
                     Awaited awaited) {
  const auto deadline = std::chrono::steady_clock::now() + timeout_;
  for (;;) {
    // Success comes first: a rank that all have met takes part to the end, whatever fails
    // meanwhile.
    if (ready()) return;
    if (failed_) throw CommError(reason_);
    const std::vector<int> ranks = awaited();
    std::vector<int> gone;
    for (int r : ranks) {
      if (left_[static_cast<size_t>(r)]) gone.push_back(r);
    }
    std::string reason;
    if (!gone.empty()) {
      reason = str(describe(op), ": ", list_ranks(gone), " has left the group");
    } else if (std::chrono::steady_clock::now() >= deadline) {
      reason = str(describe(op), ": ", list_ranks(ranks), " did not arrive within ",
                   timeout_.count(), " ms (ThreadGroupOptions::timeout)");
    }
    if (!reason.empty()) {
      fail_locked(reason);
      throw CommError(reason);
    }
    changed_.wait_until(lock, deadline);
  }
}

void ThreadHub::meet(int rank, const Op& op) {
  std::unique_lock lock(mutex_);
  if (failed_) throw CommError(reason_);
  slots_[static_cast<size_t>(rank)] = &op;
  present_[static_cast<size_t>(rank)] = true;
  const uint64_t meeting = meetings_;
  if (++arrived_ < size()) {
    wait(
        lock, op, [&] { return meetings_ != meeting; },
        [&] {
          std::vector<int> missing;
          for (int r = 0; r < size(); ++r) {
            if (!present_[static_cast<size_t>(r)]) missing.push_back(r);
          }
          return missing;
        });
  } else {
    arrived_ = 0;
    present_.assign(present_.size(), false);
    ++meetings_;
    changed_.notify_all();
  }
  // The same comparison on every rank, from the same slots: all throw or none.
  for (int r = 1; r < size(); ++r) {
    if (this->op(r).signature == this->op(0).signature) continue;
    const std::string reason =
        describe_mismatch(op.sequence, 0, this->op(0).signature, r, this->op(r).signature,
                          this->op(0).label, this->op(r).label);
    lock.unlock();
    part();
    fail(reason);
    throw CommError(reason);
  }
}

void ThreadHub::part() {
  std::unique_lock lock(mutex_);
  const uint64_t parting = partings_;
  if (++parted_ == size()) {
    parted_ = 0;
    ++partings_;
    changed_.notify_all();
  } else {
    changed_.wait(lock, [&] { return partings_ != parting; });
  }
}

void ThreadHub::send(int rank, const Op& op) {
  std::unique_lock lock(mutex_);
  const int to = op.signature.peer;
  Mailbox& box = mail_[static_cast<size_t>(rank * size() + to)];
  box.letter = &op;
  changed_.notify_all();
  try {
    wait(
        lock, op, [&] { return box.taken; }, [&] { return std::vector<int>{to}; });
  } catch (...) {
    box.letter = nullptr;
    throw;
  }
  box = {};
}

void ThreadHub::recv(int rank, Op& op) {
  std::unique_lock lock(mutex_);
  const int from = op.signature.peer;
  Mailbox& box = mail_[static_cast<size_t>(from * size() + rank)];
  wait(
      lock, op, [&] { return box.letter != nullptr && !box.taken; },
      [&] { return std::vector<int>{from}; });
  const Signature& sent = box.letter->signature;
  if (sent.dtype != op.signature.dtype || sent.count != op.signature.count) {
    const std::string reason =
        describe_mismatch(op.sequence, from, sent, rank, op.signature, box.letter->label, op.label);
    fail_locked(reason);
    throw CommError(reason);
  }
  op.start_ns = steady_now_ns();
  // Under the lock, so that the sender cannot be interrupted while its memory is read.
  if (op.count() > 0) std::memcpy(op.out_data, box.letter->in_data, op.out.nbytes());
  box.taken = true;
  changed_.notify_all();
}

void ThreadHub::fail(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  fail_locked(reason);
}

void ThreadHub::fail_locked(const std::string& reason) {
  if (failed_) return;
  failed_ = true;
  reason_ = reason;
  changed_.notify_all();
}

void ThreadHub::leave(int rank) {
  const std::lock_guard lock(mutex_);
  left_[static_cast<size_t>(rank)] = true;
  changed_.notify_all();
}

std::shared_ptr<ThreadHub> ThreadHub::child(int64_t split_index, int color, int size) {
  const std::lock_guard lock(mutex_);
  auto& hub = children_[{split_index, color}];
  if (!hub) hub = std::make_shared<ThreadHub>(size, timeout_);
  return hub;
}

}  // namespace lockstep::comm
