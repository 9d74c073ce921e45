// RankWatch: finds out, while ranks wait for each other, whom they wait for.
//
// A thread of its own wakes once a second, tells the store what this rank is in, and asks who has
// gone. Where an operation of a watched group waits
// - for a rank that is dead, has failed or has ended, it fails the group, within two seconds;
// - for longer than `stall_warning`, one of the waiting ranks logs a warning that names the late.
// A rank that is stopped or slow is late, not dead, and outside of collectives nothing counts.
//
// When a rank leaves, its last words say whether it was done or had failed, and of what, so that
// the others print the first cause.
//
// Ownership: the groups of one rank that come from one another share a watch; it ends with the
// last.
#pragma once

#include "lockstep/distributed/comm/op_log.h"
#include "lockstep/distributed/comm/rank_news.h"

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace lockstep::comm {

struct RankWatchOptions {
  int rank = 0;  // in the job; `size` ranks have a watch with the same prefix
  int size = 1;
  std::chrono::milliseconds stall_warning{10'000};
  std::chrono::milliseconds timeout{30'000};  // of operations, to be told
  std::chrono::milliseconds beat{1000};
};

class RankWatch {
 public:
  /// A group under watch.
  struct Watched {
    LoggedGroup group;
    std::mutex mutex;
    std::function<void(std::string)> fail;  // null: detached
    // The watch's thread's.
    int64_t waiting_in = -1;  // sequence number of the operation at the last look
    int64_t suspected = -1;   // likewise: a rank seemed to be to blame
    int64_t warned = -1;
  };

  RankWatch(std::unique_ptr<Store> store, const std::string& prefix,
            const RankWatchOptions& options);
  /// Leaves the last words, unless tell_failure() has.
  ~RankWatch();
  RankWatch(const RankWatch&) = delete;
  RankWatch& operator=(const RankWatch&) = delete;

  int rank() const { return options_.rank; }

  /// `fail` ends the group with a reason; it is called from the watch's thread, until detach().
  std::shared_ptr<Watched> attach(LoggedGroup group, std::function<void(std::string)> fail);
  /// Waits for a call of `fail` in progress.
  void detach(const std::shared_ptr<Watched>& watched);

  /// This rank's part in a group has failed. Tells it to the others.
  void tell_failure(const Watched& watched, const std::string& why);
  /// Whom `op` has failed for, in words. `late`: it took too long; otherwise a connection was lost,
  /// and the store is given a moment to see who has gone. `certain`: whether that is found.
  std::string explain(const Watched& watched, const Op& op, bool late, bool& certain);

  /// The logs of all groups that are attached or have failed, and the last news.
  void collect_logs(LogCollection& into) const;

 private:
  void loop();
  void tick();
  bool tell_heartbeat(const std::vector<std::shared_ptr<Watched>>& groups);
  void look_at(Watched& watched, bool ask);
  void warn(Watched& watched, const OpRecord& op, const Waiting& waiting, const Blame& found);
  void ask_beats(const Waiting& waiting);
  Blame judge(const Waiting& waiting) const;
  Waiting waiting_of(const LoggedGroup& group, const OpRecord& op) const;
  std::vector<std::shared_ptr<Watched>> groups() const;
  LastWords farewell();

  const RankWatchOptions options_;
  RankNews news_;
  int64_t beats_ = 0;

  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::shared_ptr<Watched>> groups_;
  std::vector<LoggedGroup> ended_;                     // detached ones that had failed
  std::vector<std::pair<std::string, int64_t>> done_;  // collectives of detached groups
  bool told_failure_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

/// A watch of its own for a group of all ranks of `store`; throws CommError if rank 0 is dead.
std::shared_ptr<RankWatch> watch_ranks(Store& store, const std::string& prefix,
                                       const RankWatchOptions& options);

}  // namespace lockstep::comm
