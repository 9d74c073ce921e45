// RankNews: what a rank hears of the others by way of the job's store, and tells them. It says what
// each has told last and whether the store has seen it go; what that means is for blame.h.
//
// In the store, after the group's prefix: "beat/R" holds rank R's heartbeat, "words" counts the
// last words of all, and "words/1", "words/2", ... are these.
//
// Threads: every function may be called from any thread. None throws because of the store: when it
// is closed, rank 0, which serves it, is gone.
#pragma once

#include "lockstep/distributed/comm/blame.h"
#include "lockstep/distributed/comm/store.h"

#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace lockstep::comm {

class RankNews {
 public:
  /// `store`'s calls must end soon: they are what the functions here wait for.
  RankNews(std::unique_ptr<Store> store, std::string prefix, int rank, int size);

  /// Whether the store has answered.
  bool tell(const Heartbeat& beat);
  void tell(const LastWords& words);
  /// Asks who has gone and for last words. Whether the store has answered.
  bool ask();
  /// Asks these ranks' heartbeats.
  void ask_beats(const std::vector<int>& ranks);

  /// By rank; this rank's own entry is empty.
  std::vector<PeerNews> all() const;
  /// Whether the store has answered the last time. While it does not, nothing new is known of any
  /// rank, but that rank 0 does not answer.
  bool answers() const;

 private:
  bool ask_gone();
  void ask_words();
  /// Runs `call` with the store; whether it was answered.
  template <class Call>
  bool with_store(Call&& call);
  void note_answer(bool answers);
  void lost();

  const std::unique_ptr<Store> store_;
  const std::string prefix_;
  const int rank_;
  mutable std::mutex mutex_;  // not held while the store is asked
  std::vector<PeerNews> news_;
  std::set<int64_t> words_read_;
  int departures_ = 0;
  bool lost_ = false;  // the store
  bool answers_ = true;
};

}  // namespace lockstep::comm
