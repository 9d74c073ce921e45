// ThreadHub: the meeting point of the ranks of a thread group.
//
// A collective has two meetings: at meet() each rank shows its operation and all compare them; then
// each rank computes its share of the result straight in the others' memory; at part() all wait
// until everyone has finished, so that no rank touches memory that its owner was given back.
// Between the two nothing blocks and nothing is interrupted.
#pragma once

#include "lockstep/distributed/comm/op.h"

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace lockstep::comm {

class ThreadHub {
 public:
  ThreadHub(int size, std::chrono::milliseconds timeout);

  int size() const { return static_cast<int>(slots_.size()); }

  /// Waits for all ranks. Throws CommError, on every rank, if they disagree, if one has left or is
  /// late, or if the group has failed. The operations are then at op(r) until part().
  void meet(int rank, const Op& op);
  const Op& op(int rank) const { return *slots_[static_cast<size_t>(rank)]; }
  void part();

  void send(int rank, const Op& op);
  void recv(int rank, Op& op);

  void fail(const std::string& reason);
  /// The rank will not come again; those that wait for it fail.
  void leave(int rank);
  /// The hub of one part of a split: the first member makes it.
  std::shared_ptr<ThreadHub> child(int64_t split_index, int color, int size);

 private:
  struct Mailbox {
    const Op* letter = nullptr;
    bool taken = false;
  };

  /// Waits for `ready`; on failure, absence of one of `awaited()` or the deadline, fails the group
  /// and throws.
  template <class Ready, class Awaited>
  void wait(std::unique_lock<std::mutex>& lock, const Op& op, Ready ready, Awaited awaited);
  void fail_locked(const std::string& reason);

  const std::chrono::milliseconds timeout_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<const Op*> slots_;
  std::vector<bool> present_;  // has arrived at the meeting in progress
  std::vector<bool> left_;
  int arrived_ = 0;
  int parted_ = 0;
  uint64_t meetings_ = 0;
  uint64_t partings_ = 0;
  std::vector<Mailbox> mail_;  // [from * size + to]
  bool failed_ = false;
  std::string reason_;
  std::map<std::pair<int64_t, int>, std::shared_ptr<ThreadHub>> children_;
};

}  // namespace lockstep::comm
