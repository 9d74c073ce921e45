#include "lockstep/distributed/comm/rank_watch.h"

#include "lockstep/base/log.h"
#include "lockstep/base/thread_signals.h"
#include "lockstep/distributed/comm/peer_lost.h"
#include "lockstep/distributed/comm/store_reads.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <utility>

namespace lockstep::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr size_t kKept = 32;  // groups that have ended

int64_t ms_since(int64_t then_ns) { return (steady_now_ns() - then_ns) / 1'000'000; }

std::string seconds(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g s", value);
  return text;
}

GroupActivity activity_of(const LoggedGroup& group) {
  const OpProgress progress = group.log->progress();
  GroupActivity activity{.group = group.name, .done = progress.collectives};
  if (progress.running) {
    activity.where = progress.running->point_to_point() ? GroupActivity::Where::kInLetter
                                                        : GroupActivity::Where::kInCollective;
    activity.ms = ms_since(progress.running->begun_ns);
    activity.what = describe(*progress.running);
  } else if (progress.last) {
    activity.ms = ms_since(progress.last->finished_ns);
    activity.what = describe(*progress.last);
  }
  return activity;
}

}  // namespace

RankWatch::RankWatch(std::unique_ptr<Store> store, const std::string& prefix,
                     const RankWatchOptions& options)
    : options_(options), news_(std::move(store), prefix, options.rank, options.size) {
  thread_ = thread_without_signals([this] { loop(); });
}

RankWatch::~RankWatch() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
  news_.tell(farewell());
}

LastWords RankWatch::farewell() {
  LastWords words{.rank = options_.rank, .done = done_};
  if (std::uncaught_exceptions() > 0 && !told_failure_) {
    words.failed = true;
    words.why = "it ended with an exception; its own last line says which";
  }
  return words;
}

std::shared_ptr<RankWatch::Watched> RankWatch::attach(LoggedGroup group,
                                                      std::function<void(std::string)> fail) {
  auto watched = std::make_shared<Watched>();
  watched->group = std::move(group);
  watched->fail = std::move(fail);
  const std::lock_guard lock(mutex_);
  groups_.push_back(watched);
  return watched;
}

void RankWatch::detach(const std::shared_ptr<Watched>& watched) {
  {
    const std::lock_guard lock(watched->mutex);
    watched->fail = nullptr;
  }
  const OpLog& log = *watched->group.log;
  const std::lock_guard lock(mutex_);
  std::erase(groups_, watched);
  done_.emplace_back(watched->group.name, log.progress().collectives);
  if (!log.failure().empty()) ended_.push_back(watched->group);
  if (done_.size() > kKept) done_.erase(done_.begin());
  if (ended_.size() > kKept) ended_.erase(ended_.begin());
}

std::vector<std::shared_ptr<RankWatch::Watched>> RankWatch::groups() const {
  const std::lock_guard lock(mutex_);
  return groups_;
}

void RankWatch::loop() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    lock.unlock();
    tick();
    lock.lock();
    wake_.wait_for(lock, options_.beat, [this] { return stopping_; });
  }
}

void RankWatch::tick() {
  const auto watched = groups();
  // A store that does not answer keeps the thread waiting once, not at each question.
  const bool answered = tell_heartbeat(watched);
  if (answered) news_.ask();
  for (const auto& one : watched) look_at(*one, answered);
}

bool RankWatch::tell_heartbeat(const std::vector<std::shared_ptr<Watched>>& groups) {
  Heartbeat beat{.count = beats_++};
  for (const auto& watched : groups) beat.groups.push_back(activity_of(watched->group));
  return news_.tell(beat);
}

Waiting RankWatch::waiting_of(const LoggedGroup& group, const OpRecord& op) const {
  Waiting waiting{.group = group.name, .collective = op.collective, .letter = op.point_to_point()};
  const int peer =
      waiting.letter ? group.ranks[static_cast<size_t>(op.signature.peer)] : options_.rank;
  for (const int rank : group.ranks) {
    if (rank == options_.rank) continue;
    (waiting.letter && rank != peer ? waiting.beside : waiting.ranks).push_back(rank);
  }
  return waiting;
}

void RankWatch::ask_beats(const Waiting& waiting) {
  news_.ask_beats(waiting.ranks);
  news_.ask_beats(waiting.beside);
}

Blame RankWatch::judge(const Waiting& waiting) const {
  const auto news = news_.all();
  const auto now = steady_clock::now();
  Blame found = blame(waiting, news, now);
  // Of the others nothing is heard only because rank 0 hands nothing on.
  if (!found.certain && !news_.answers()) {
    found = {.certain = false, .ranks = {0}, .text = "rank 0 does not answer"};
    if (news[0].beat) {
      found.text += "; it was last heard of " + describe_doing(waiting.group, news[0], now);
    }
  }
  return found;
}

/// Acts only on what it sees twice in the same operation: a rank that has just ended may have done
/// its part of it.
void RankWatch::look_at(Watched& watched, bool ask) {
  const auto op = watched.group.log->progress().running;
  const bool again = op && watched.waiting_in == op->sequence;
  watched.waiting_in = op ? op->sequence : -1;
  if (!again) return;
  const Waiting waiting = waiting_of(watched.group, *op);
  if (ask) ask_beats(waiting);
  const Blame found = judge(waiting);
  if (found.certain && std::exchange(watched.suspected, op->sequence) == op->sequence) {
    const std::lock_guard lock(watched.mutex);
    if (watched.fail) {
      watched.fail(str(describe(*op), ": ", kPeerLost, ": in collective ", op->collective, ": ",
                       found.text));
    }
  } else if (!found.certain && ms_since(op->begun_ns) >= options_.stall_warning.count()) {
    warn(watched, *op, waiting, found);
  }
}

void RankWatch::warn(Watched& watched, const OpRecord& op, const Waiting& waiting,
                     const Blame& found) {
  if (std::exchange(watched.warned, op.sequence) == op.sequence) return;
  const auto news = news_.all();
  // The first of those that wait speaks for all.
  for (const int rank : waiting.ranks) {
    if (rank < options_.rank &&
        waits_too(waiting, news[static_cast<size_t>(rank)], steady_clock::now())) {
      return;
    }
  }
  log_warning(str("rank ", options_.rank, " has waited ",
                  seconds(static_cast<double>(ms_since(op.begun_ns)) / 1000), " in collective ",
                  op.collective, ", ", describe(op), ": ", found.text, "; the timeout is ",
                  seconds(static_cast<double>(options_.timeout.count()) / 1000)));
}

void RankWatch::tell_failure(const Watched& watched, const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    told_failure_ = true;
  }
  news_.tell(
      LastWords{.rank = options_.rank, .failed = true, .group = watched.group.name, .why = why});
}

std::string RankWatch::explain(const Watched& watched, const Op& op, bool late, bool& certain) {
  OpRecord record;
  record.signature = op.signature;
  record.collective = op.collective;
  const Waiting waiting = waiting_of(watched.group, record);
  const auto deadline = steady_clock::now() + kUntilSeen;
  for (;;) {
    if (news_.ask()) ask_beats(waiting);
    const Blame found = judge(waiting);
    certain = found.certain;
    if (certain || late || steady_clock::now() >= deadline) return found.text;
    std::this_thread::sleep_for(milliseconds(10));
  }
}

void RankWatch::collect_logs(LogCollection& into) const {
  {
    const std::lock_guard lock(mutex_);
    for (const auto& watched : groups_) into.groups.push_back(watched->group);
    into.groups.insert(into.groups.end(), ended_.begin(), ended_.end());
  }
  const auto news = news_.all();
  const auto now = steady_clock::now();
  for (int rank = 0; rank < static_cast<int>(news.size()); ++rank) {
    const PeerNews& peer = news[static_cast<size_t>(rank)];
    if (rank == options_.rank || !peer.beat || peer.beat->groups.empty()) continue;
    into.heard.emplace_back(rank, describe_doing(peer.beat->groups[0].group, peer, now));
  }
}

std::shared_ptr<RankWatch> watch_ranks(Store& store, const std::string& prefix,
                                       const RankWatchOptions& options) {
  try {
    return std::make_shared<RankWatch>(store.connect_again(kWatchAnswer), prefix + "/watch/",
                                       options);
  } catch (const StoreClosed& e) {
    throw CommError(str(kPeerLost, ": rank 0 is dead: ", e.what()));
  }
}

}  // namespace lockstep::comm
