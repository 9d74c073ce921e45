#include "lockstep/distributed/comm/rendezvous.h"

#include "lockstep/base/error.h"
#include "lockstep/distributed/comm/tcp_store.h"

#include <charconv>
#include <cstdlib>
#include <cstring>

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr const char* kRemedy =
    "start the program with `lockstep launch --nproc N -- program`, or set RANK, WORLD_SIZE, "
    "MASTER_ADDR and MASTER_PORT on every rank";

int number_from_env(const char* name, int least, int most, const char* meaning) {
  const char* text = std::getenv(name);
  check(text != nullptr && *text != '\0', "rendezvous: ", name, " is not set; ", kRemedy);
  int value = 0;
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, value);
  check(error == std::errc() && stop == end && value >= least && value <= most,
        "rendezvous: ", name, " must be ", meaning, ", got '", text, "'; ", kRemedy);
  return value;
}

std::string key_of(int rank) { return str("rank/", rank); }

/// Which of the others have not come, as "1, 3".
std::string missing_ranks(Store& store, int world_size) {
  std::string missing;
  for (int r = 0; r < world_size; ++r) {
    try {
      store.get(key_of(r), milliseconds(0));
    } catch (const CommError&) {
      missing += str(missing.empty() ? "" : ", ", r);
    }
  }
  return missing;
}

/// Announces this rank and waits for all others; throws if they do not come or contradict.
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
      const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
      theirs = store.get(key_of(r), std::max(left, milliseconds(0)));
    } catch (const CommError& e) {
      if (!std::string(e.what()).starts_with("Store::get")) throw;
      throw CommError(str("rendezvous: of ", info.world_size, " ranks these did not come to ",
                          info.master_addr, ":", info.master_port, " within ", timeout.count(),
                          " ms: ", missing_ranks(store, info.world_size)));
    }
    check(theirs == mine, "rendezvous: WORLD_SIZE is ", mine, " on rank ", info.rank, " but ",
          theirs, " on rank ", r, "; it must be the same on all ranks");
  }
}

}  // namespace

std::optional<RankInfo> rank_from_env() {
  if (std::getenv("RANK") == nullptr && std::getenv("WORLD_SIZE") == nullptr) return std::nullopt;
  RankInfo info;
  info.world_size = number_from_env("WORLD_SIZE", 1, 100'000, "a number of ranks, 1 or more");
  info.rank = number_from_env("RANK", 0, 99'999, "a number from 0 to WORLD_SIZE - 1");
  check(info.rank < info.world_size, "rendezvous: RANK is ", info.rank, " but WORLD_SIZE is ",
        info.world_size, ": ranks go from 0 to ", info.world_size - 1, "; ", kRemedy);
  info.local_rank = info.rank;
  if (std::getenv("LOCAL_RANK") != nullptr) {
    info.local_rank = number_from_env("LOCAL_RANK", 0, info.rank, "a number from 0 to RANK");
  }
  const char* address = std::getenv("MASTER_ADDR");
  check(address != nullptr && *address != '\0', "rendezvous: MASTER_ADDR is not set; ", kRemedy);
  info.master_addr = address;
  info.master_port =
      static_cast<uint16_t>(number_from_env("MASTER_PORT", 1, 65535, "a port from 1 to 65535"));
  return info;
}

std::shared_ptr<Store> join_store(const RankInfo& info, const std::string& token,
                                  milliseconds timeout) {
  const auto deadline = steady_clock::now() + timeout;
  auto store = std::make_shared<TcpStore>(TcpStoreOptions{.host = info.master_addr,
                                                          .port = info.master_port,
                                                          .serve = info.rank == 0,
                                                          .token = token,
                                                          .rank = info.rank,
                                                          .timeout = timeout});
  try {
    meet(*store, info, deadline, timeout);
  } catch (const Error&) {
    // Here, where no exception unwinds, so that rank 0's server stays until the others know why.
    store.reset();
    throw;
  }
  return store;
}

}  // namespace lockstep
