// StartStore: the job's store while ranks start together. Who waits in it for a rank that has died,
// or that cannot start, throws within a second and names it; each rank that fails tells the others
// why. Rank 0 serves the store: where that is closed, rank 0 is dead.
//
// In the store, after the prefix: "/failed" holds what the first rank that could not start has
// told, "/started/R" is set once rank R needs the others no longer.
//
// Threads: as Store. StartWatch has one of its own.
#pragma once

#include "lockstep/distributed/comm/store.h"

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace lockstep::comm {

class StartStore final : public Store {
 public:
  /// `ranks`: who starts together, by their numbers in the job; this one is `rank` of the job.
  /// `prefix` names this start.
  StartStore(Store& store, std::string prefix, int rank, std::vector<int> ranks);

  void set(const std::string& key, const std::string& value) override;
  /// Throws also, "a peer was lost or is late: rank 2 is dead ...", once failure() is known.
  std::string get(const std::string& key, std::chrono::milliseconds timeout) override;
  void wait(const std::vector<std::string>& keys, std::chrono::milliseconds timeout) override;
  int64_t add(const std::string& key, int64_t delta) override;
  bool remove(const std::string& key) override;
  std::unique_ptr<Store> connect_again(std::chrono::milliseconds answer_timeout) override;

  /// Why the ranks cannot start, asked of `store`, which may be another connection; nothing: all is
  /// well so far.
  std::optional<std::string> failure(Store& store) const;
  /// The same after a connection to another rank was lost, which the store may see a moment later.
  std::optional<std::string> failure_soon() const;

  /// This rank's start is over.
  void started();
  /// This rank cannot start. Not told where another rank is the cause, and by the first only.
  void tell_failure(const std::string& why);
  /// Returns what `part` does; what it throws is told.
  template <class Part>
  auto run(Part&& part) {
    try {
      return part();
    } catch (const std::exception& e) {
      tell_failure(e.what());
      throw;
    }
  }

 private:
  Store& store_;
  const std::string prefix_;
  const int rank_;
  const std::vector<int> ranks_;
};

/// For a wait that is not one in the store: calls `stop` once, from a thread of its own, when
/// failure() is known or the deadline has passed.
class StartWatch {
 public:
  StartWatch(StartStore& store, std::chrono::milliseconds timeout, std::function<void()> stop);
  ~StartWatch();
  StartWatch(const StartWatch&) = delete;
  StartWatch& operator=(const StartWatch&) = delete;

  /// Throws CommError with the reason if `stop` was called.
  void check_on() const;

 private:
  void loop(std::chrono::steady_clock::time_point deadline, std::chrono::milliseconds timeout);

  StartStore& store_;
  const std::function<void()> stop_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool over_ = false;
  std::string reason_;
  std::thread thread_;
};

}  // namespace lockstep::comm
