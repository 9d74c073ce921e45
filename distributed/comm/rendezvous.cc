#include "lockstep/distributed/comm/rendezvous.h"

#include "lockstep/base/error.h"
#include "lockstep/base/failpoint.h"
#include "lockstep/distributed/comm/job_token.h"
#include "lockstep/distributed/comm/meeting_note.h"
#include "lockstep/distributed/comm/start_store.h"
#include "lockstep/distributed/comm/store_reads.h"
#include "lockstep/distributed/comm/tcp_store.h"

#include <algorithm>
#include <numeric>
#include <thread>

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// For a store that may be there no longer.
constexpr milliseconds kTry{500};
constexpr const char* kMeeting = "meeting";  // this start's name in the store

milliseconds left_until(steady_clock::time_point deadline) {
  const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
  return std::max(left, milliseconds(0));
}

std::string key_of(int rank) { return str("rank/", rank); }

/// Which of the others have not come, as "1, 3".
std::string missing_ranks(Store& store, int world_size) {
  std::string missing;
  for (int r = 0; r < world_size; ++r) {
    if (!comm::value_of(store, key_of(r))) missing += str(missing.empty() ? "" : ", ", r);
  }
  return missing;
}

/// Announces this rank and waits for all others; throws if they do not come, contradict or die.
void meet(Store& store, const RankInfo& info, steady_clock::time_point deadline,
          milliseconds timeout) {
  check(store.add(str("arrivals/", info.rank), 1) == 1, "rendezvous: two processes have RANK ",
        info.rank, "; every process needs its own");
  const std::string mine = std::to_string(info.world_size);
  store.set(key_of(info.rank), mine);
  // Rank 0's word first, so that ranks that differ in WORLD_SIZE learn it before they wait for what
  // never comes.
  for (int r = 0; r < info.world_size; ++r) {
    std::string theirs;
    try {
      theirs = store.get(key_of(r), left_until(deadline));
    } catch (const CommError& e) {
      if (!std::string(e.what()).starts_with("Store::get")) {
        throw CommError(str("rendezvous: ", e.what()));
      }
      throw CommError(str("rendezvous: of ", info.world_size, " ranks these did not come to ",
                          info.master_addr, ":", info.master_port, " within ", timeout.count(),
                          " ms: ", missing_ranks(store, info.world_size)));
    }
    check(theirs == mine, "rendezvous: WORLD_SIZE is ", mine, " on rank ", info.rank, " but ",
          theirs, " on rank ", r, "; it must be the same on all ranks");
  }
}

/// `store` once all have come; it is left where no exception unwinds, so that rank 0's server stays
/// until the others know why.
std::shared_ptr<Store> met(std::shared_ptr<Store> store, const RankInfo& info,
                           steady_clock::time_point deadline, milliseconds timeout) {
  std::vector<int> ranks(static_cast<size_t>(info.world_size));
  std::iota(ranks.begin(), ranks.end(), 0);
  failpoint("rendezvous.after_hello");
  try {
    comm::StartStore start(*store, kMeeting, info.rank, std::move(ranks));
    start.run([&] { meet(start, info, deadline, timeout); });
  } catch (const Error&) {
    store.reset();
    throw;
  }
  return store;
}

/// Rank 0's store; throws ArgumentError, and tells the ranks there, if this job's store is served
/// at that port already.
std::shared_ptr<Store> serve_store(const TcpStoreOptions& options) {
  try {
    return std::make_shared<TcpStore>(options);
  } catch (const CommError&) {
    TcpStoreOptions client = options;
    client.serve = false;
    client.rank = -1;
    client.timeout = kTry;
    std::unique_ptr<TcpStore> there;
    try {
      there = std::make_unique<TcpStore>(client);
    } catch (const CommError&) {
      // Another program's port, or another job's.
    }
    if (there == nullptr) throw;
    const std::string why =
        str("rendezvous: two processes have RANK 0 at ", options.host, ":", options.port,
            "; every process needs its own, and every job its own MASTER_PORT");
    comm::StartStore(*there, kMeeting, 0, {}).tell_failure(why);
    throw ArgumentError(why);
  }
}

/// Rank 0's store at the place that the file tells, as soon as somebody serves it.
std::shared_ptr<Store> store_of_file(RankInfo& info, const std::string& path,
                                     const std::string& job, steady_clock::time_point deadline,
                                     milliseconds timeout) {
  std::string why =
      "rank 0 has not written it; is it running, and is the folder the same on all "
      "machines?";
  for (;;) {
    const auto note = comm::read_meeting_note(path);
    if (note && !job.empty() && !note->job.empty() && note->job != job) {
      why = "it is of another job; remove it";
    } else if (note) {
      try {
        info.master_addr = note->host;
        info.master_port = note->port;
        return std::make_shared<TcpStore>(
            TcpStoreOptions{.host = note->host,
                            .port = note->port,
                            .token = note->token,
                            .rank = info.rank,
                            .timeout = std::min(left_until(deadline), kTry),
                            .answer_timeout = timeout});
      } catch (const CommError& e) {
        why = str(e.what(), " (unless an earlier job has left the file: then remove it)");
      }
    }
    if (steady_clock::now() >= deadline) throw CommError(str("rendezvous: ", path, ": ", why));
    std::this_thread::sleep_for(milliseconds(20));
  }
}

}  // namespace

std::shared_ptr<Store> join_store(const RankInfo& info, const std::string& token,
                                  milliseconds timeout) {
  const auto deadline = steady_clock::now() + timeout;
  const TcpStoreOptions options{.host = info.master_addr,
                                .port = info.master_port,
                                .serve = info.rank == 0,
                                .token = token,
                                .rank = info.rank,
                                .timeout = timeout,
                                .answer_timeout = timeout};
  auto store = options.serve ? serve_store(options) : std::make_shared<TcpStore>(options);
  return met(std::move(store), info, deadline, timeout);
}

std::shared_ptr<Store> join_store_by_file(RankInfo& info, const std::string& path,
                                          const std::string& job, milliseconds timeout) {
  const auto deadline = steady_clock::now() + timeout;
  if (info.rank != 0) {
    auto store = store_of_file(info, path, job, deadline, timeout);
    return met(std::move(store), info, deadline, timeout);
  }
  if (const auto old = comm::read_meeting_note(path)) {
    bool alive = true;
    try {
      TcpStore({.host = old->host, .port = old->port, .token = old->token, .timeout = kTry});
    } catch (const CommError&) {
      alive = false;  // left behind
    }
    if (alive) {
      throw CommError(
          str("rendezvous: another job is meeting at ", path, "; give each job a file of its own"));
    }
  }
  const std::string token = make_job_token();
  auto store = std::make_shared<TcpStore>(TcpStoreOptions{.host = info.master_addr,
                                                          .serve = true,
                                                          .token = token,
                                                          .rank = 0,
                                                          .timeout = timeout,
                                                          .answer_timeout = timeout});
  info.master_port = store->port();
  const comm::MeetingNote note(path, {info.master_addr, info.master_port, token, job});
  return met(std::move(store), info, deadline, timeout);
}

}  // namespace lockstep
