// FakeClique: the ranks of one communicator of a fake NCCL, as threads: how they meet, and what
// they compute when they have.
#pragma once

#include "lockstep/distributed/comm/process_group.h"

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::testing {

/// One rank's call of a collective.
struct FakeCall {
  std::string name;
  const void* in = nullptr;
  void* out = nullptr;
  size_t in_bytes = 0;
  size_t out_bytes = 0;
  DType dtype = DType::kU8;
  ReduceOp op = ReduceOp::kSum;
  int root = -1;
};

/// Threads: every function may be called from any thread. Those that wait end when `ended` has come
/// true and wake() was called.
class FakeClique {
 public:
  explicit FakeClique(int size) : here_(static_cast<size_t>(size)) {}

  int size() const { return static_cast<int>(here_.size()); }
  void arrive(int rank);
  bool complete() const;  // all have arrived

  /// Collective number `index`. Ranks that call different things wait until they are ended, as
  /// those of NCCL may. Whether it ended well; otherwise `out` is poisoned.
  bool run(int64_t index, int rank, const FakeCall& call, const std::atomic<bool>& ended);

  void post(int from, int to, std::vector<std::byte> letter);
  bool fetch(int from, int to, void* out, size_t bytes, const std::atomic<bool>& ended);

  void wait_for_end(const std::atomic<bool>& ended);
  void wake();

 private:
  struct Meeting {
    std::vector<FakeCall> calls;
    std::vector<std::vector<std::byte>> inputs;
    int arrived = 0;
    int left = 0;
    bool alike = true;
  };
  std::shared_ptr<Meeting> meet(int64_t index, int rank, const FakeCall& call,
                                const std::atomic<bool>& ended);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<bool> here_;
  std::map<int64_t, std::shared_ptr<Meeting>> meetings_;
  std::map<std::pair<int, int>, std::deque<std::vector<std::byte>>> letters_;  // by (from, to)
};

}  // namespace lockstep::testing
