// Whom a rank waits for, found from what it has heard of the others: a pure function.
#pragma once

#include "lockstep/distributed/comm/heartbeat.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::comm {

/// What this rank has heard of another one.
struct PeerNews {
  std::optional<Heartbeat> beat = {};
  /// When a new heartbeat was last seen to have come: no clock but this rank's own counts.
  std::chrono::steady_clock::time_point heard = {};
  int gone = 0;                       // k > 0: all its connections have closed, as the k-th rank's
  std::vector<LastWords> words = {};  // in the order in which they came
  std::vector<int64_t> order = {};    // of these among all ranks' last words
};

/// What this rank waits in.
struct Waiting {
  std::string group = {};
  std::vector<int> ranks = {};   // the others that take part, by their numbers in the job
  int64_t collective = 0;        // its number in the group
  bool letter = false;           // or it is a send or a receive, after so many collectives
  std::vector<int> beside = {};  // of a letter: the rest of the group, for whom its rank may wait
};

struct Blame {
  /// Without them it cannot end: a rank has failed, died or left. Otherwise they may only be late.
  bool certain = false;
  std::vector<int> ranks = {};  // none: all are in it
  std::string text = {};        // "rank 2 is dead (gone so far: rank 2)"
};

/// `news` by rank of the job. What is named is the first cause: a rank that failed for a reason of
/// its own, else the dead, else those that left, else the first rank that failed because of others,
/// else those that have not come.
Blame blame(const Waiting& waiting, const std::vector<PeerNews>& news,
            std::chrono::steady_clock::time_point now);

/// Whether the rank is in what `waiting` tells, as far as is known, and gives signs of life.
bool waits_too(const Waiting& waiting, const PeerNews& news,
               std::chrono::steady_clock::time_point now);

/// "in no collective for 4.1 s, after collective 40, all_reduce(...) [bucket 2: ...]; no sign of
/// life for 3.9 s".
std::string describe_doing(const std::string& group, const PeerNews& news,
                           std::chrono::steady_clock::time_point now);

}  // namespace lockstep::comm
