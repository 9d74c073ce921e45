#include "lockstep/distributed/comm/blame.h"

#include "lockstep/base/str.h"
#include "lockstep/distributed/comm/peer_lost.h"

#include <algorithm>
#include <cstdio>

namespace lockstep::comm {
namespace {

using std::chrono::milliseconds;
using TimePoint = std::chrono::steady_clock::time_point;
using Where = GroupActivity::Where;

// Heartbeats come each second; so many have been missed.
constexpr milliseconds kSilent{2500};

std::string seconds(int64_t ms) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", static_cast<double>(ms) / 1000);
  return text;
}

int64_t ms_since(TimePoint then, TimePoint now) {
  return std::chrono::duration_cast<milliseconds>(now - then).count();
}

bool silent(const PeerNews& news, TimePoint now) { return now - news.heard > kSilent; }

const GroupActivity* activity(const std::string& group, const PeerNews& news) {
  if (!news.beat) return nullptr;
  for (const GroupActivity& g : news.beat->groups) {
    if (g.group == group) return &g;
  }
  return nullptr;
}

/// "rank 2", "ranks 1 and 2".
std::string named(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) {
    text += str(i == 0 ? "" : i + 1 < ranks.size() ? ", " : " and ", ranks[i]);
  }
  return text;
}

/// Whether what this rank waits in had ended for the one with these last words.
bool had_ended(const Waiting& waiting, const LastWords& words) {
  for (const auto& [group, done] : words.done) {
    if (group == waiting.group) return done > waiting.collective;
  }
  return false;
}

bool concerns(const Waiting& waiting, const LastWords& words) {
  return words.group.empty() ? !had_ended(waiting, words) : words.group == waiting.group;
}

std::string failed_text(const LastWords& words) {
  // Who throws often says already which rank it is.
  return words.why.starts_with("rank ") ? words.why
                                        : str("rank ", words.rank, " failed: ", words.why);
}

/// The first one's last words; `own`: that blame no other rank.
Blame first_failure(const Waiting& waiting, const std::vector<PeerNews>& news, bool own) {
  Blame found;
  int64_t first = INT64_MAX;
  for (const int rank : waiting.ranks) {
    const PeerNews& peer = news[static_cast<size_t>(rank)];
    for (size_t k = 0; k < peer.words.size(); ++k) {
      const LastWords& words = peer.words[k];
      if (!words.failed || !concerns(waiting, words) || peer.order[k] >= first) continue;
      if (own && words.why.find(kPeerLost) != std::string::npos) continue;
      first = peer.order[k];
      found = {.certain = true, .ranks = {rank}, .text = failed_text(words)};
    }
  }
  return found;
}

Blame the_dead(const Waiting& waiting, const std::vector<PeerNews>& news, TimePoint now) {
  std::vector<int> dead;
  for (const int rank : waiting.ranks) {
    const PeerNews& peer = news[static_cast<size_t>(rank)];
    if (peer.gone > 0 && peer.words.empty()) dead.push_back(rank);
  }
  if (dead.empty()) return {};
  std::sort(dead.begin(), dead.end(), [&](int a, int b) {
    return news[static_cast<size_t>(a)].gone < news[static_cast<size_t>(b)].gone;
  });
  std::string text =
      str(named(dead), dead.size() == 1 ? " is dead" : " are dead", " (gone so far: rank ");
  for (size_t i = 0; i < dead.size(); ++i) text += str(i == 0 ? "" : ", ", dead[i]);
  text += ")";
  const PeerNews& first = news[static_cast<size_t>(dead[0])];
  if (first.beat) {
    text += str("; rank ", dead[0], " was last heard of ",
                describe_doing(waiting.group, {.beat = first.beat, .heard = now}, now));
  }
  return {.certain = true, .ranks = dead, .text = text};
}

Blame those_that_left(const Waiting& waiting, const std::vector<PeerNews>& news) {
  for (const int rank : waiting.ranks) {
    const std::vector<LastWords>& all = news[static_cast<size_t>(rank)].words;
    // One that has failed leaves too, afterwards.
    const bool failed = std::any_of(all.begin(), all.end(), [&](const LastWords& words) {
      return words.failed && concerns(waiting, words);
    });
    if (failed) continue;
    for (const LastWords& words : all) {
      if (!concerns(waiting, words)) continue;
      int64_t done = 0;
      for (const auto& [group, count] : words.done) {
        if (group == waiting.group) done = count;
      }
      return {.certain = true,
              .ranks = {rank},
              .text = str("rank ", rank, " has ended (gone so far: rank ", rank, "), after ", done,
                          " collectives of this group")};
    }
  }
  return {};
}

Blame the_late(const Waiting& waiting, const std::vector<PeerNews>& news, TimePoint now) {
  Blame found;
  const auto add = [&](int rank) {
    found.text += str(found.ranks.empty() ? "" : "; ", "rank ", rank, " is ",
                      describe_doing(waiting.group, news[static_cast<size_t>(rank)], now));
    found.ranks.push_back(rank);
  };
  for (const int rank : waiting.ranks) {
    const PeerNews& peer = news[static_cast<size_t>(rank)];
    const GroupActivity* g = activity(waiting.group, peer);
    if (!silent(peer, now) && g != nullptr && g->done > waiting.collective) continue;
    if (waits_too(waiting, peer, now)) continue;
    add(rank);
  }
  if (!found.ranks.empty()) return found;
  if (waiting.letter) {  // the other side is in one, too, but perhaps with another rank
    for (const int rank : waiting.ranks) add(rank);
    for (const int rank : waiting.beside) {
      const PeerNews& peer = news[static_cast<size_t>(rank)];
      if (peer.beat && silent(peer, now)) add(rank);
    }
  } else {
    found.text = "all ranks are in it: the network is slow or broken, or the data is much";
  }
  return found;
}

}  // namespace

bool waits_too(const Waiting& waiting, const PeerNews& news, TimePoint now) {
  const GroupActivity* g = activity(waiting.group, news);
  if (g == nullptr || silent(news, now)) return false;
  return g->done == waiting.collective &&
         g->where == (waiting.letter ? Where::kInLetter : Where::kInCollective);
}

std::string describe_doing(const std::string& group, const PeerNews& news, TimePoint now) {
  if (!news.beat) return "silent: it has sent no heartbeat yet";
  const GroupActivity* g = activity(group, news);
  std::string text;
  if (g == nullptr) {
    text = "no longer in this group, or not yet";
  } else {
    const std::string time = seconds(g->ms + ms_since(news.heard, now));
    if (g->where == Where::kInCollective) {
      text = str("in collective ", g->done, " for ", time, ", ", g->what);
    } else if (g->where == Where::kInLetter) {
      text = str("in a letter for ", time, ", ", g->what);
    } else if (g->what.empty()) {
      text = str("in no collective yet, for ", time);
    } else {
      text = str("in no collective for ", time, ", after collective ", g->done - 1, ", ", g->what);
    }
  }
  if (silent(news, now)) {
    text += str("; no sign of life for ", seconds(ms_since(news.heard, now)));
  }
  return text;
}

Blame blame(const Waiting& waiting, const std::vector<PeerNews>& news, TimePoint now) {
  if (Blame b = first_failure(waiting, news, /*own=*/true); b.certain) return b;
  if (Blame b = the_dead(waiting, news, now); b.certain) return b;
  if (Blame b = those_that_left(waiting, news); b.certain) return b;
  if (Blame b = first_failure(waiting, news, /*own=*/false); b.certain) return b;
  return the_late(waiting, news, now);
}

}  // namespace lockstep::comm
