#include "lockstep/distributed/comm/start_store.h"

#include "lockstep/base/thread_signals.h"
#include "lockstep/distributed/comm/peer_lost.h"
#include "lockstep/distributed/comm/store_reads.h"

#include <algorithm>

namespace lockstep::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kBetweenLooks{200};

/// What `call` does in the store.
template <class Call>
auto served_by_rank_0(Call&& call) {
  try {
    return call();
  } catch (const StoreClosed& e) {
    throw CommError(str(kPeerLost, ": rank 0 is dead: ", e.what()));
  }
}

bool blames_another(const std::string& why) { return why.find(kPeerLost) != std::string::npos; }

}  // namespace

StartStore::StartStore(Store& store, std::string prefix, int rank, std::vector<int> ranks)
    : store_(store), prefix_(std::move(prefix)), rank_(rank), ranks_(std::move(ranks)) {}

void StartStore::set(const std::string& key, const std::string& value) {
  served_by_rank_0([&] { store_.set(key, value); });
}

int64_t StartStore::add(const std::string& key, int64_t delta) {
  return served_by_rank_0([&] { return store_.add(key, delta); });
}

bool StartStore::remove(const std::string& key) {
  return served_by_rank_0([&] { return store_.remove(key); });
}

std::unique_ptr<Store> StartStore::connect_again(milliseconds answer_timeout) {
  return served_by_rank_0([&] { return store_.connect_again(answer_timeout); });
}

std::string StartStore::get(const std::string& key, milliseconds timeout) {
  const auto deadline = steady_clock::now() + timeout;
  for (bool last = false; !last;) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
    last = left <= kBetweenLooks;
    const auto wait = std::max(milliseconds(0), std::min(left, kBetweenLooks));
    const auto value = served_by_rank_0([&] { return value_of(store_, key, wait); });
    if (value) return *value;
    if (const auto why = served_by_rank_0([&] { return failure(store_); })) {
      throw CommError(str(kPeerLost, ": ", *why));
    }
  }
  throw CommError(str("Store::get: nobody has set '", key, "' within ", timeout.count(), " ms"));
}

void StartStore::wait(const std::vector<std::string>& keys, milliseconds timeout) {
  const auto deadline = steady_clock::now() + timeout;
  for (const std::string& key : keys) {
    get(key, std::chrono::ceil<milliseconds>(deadline - steady_clock::now()));
  }
}

std::optional<std::string> StartStore::failure(Store& store) const {
  // First who has gone, then the words: who is gone and has left none is dead.
  const auto gone = value_of(store, kGone);
  if (auto told = value_of(store, prefix_ + "/failed")) return told;
  if (!gone) return std::nullopt;
  // The first one: those after it may have gone because of it.
  for (const int rank : ranks_of(*gone)) {
    if (rank == rank_ || std::find(ranks_.begin(), ranks_.end(), rank) == ranks_.end()) continue;
    if (value_of(store, str(prefix_, "/started/", rank))) continue;
    return str("rank ", rank, " is dead (gone so far: rank ", *gone, ")");
  }
  return std::nullopt;
}

std::optional<std::string> StartStore::failure_soon() const {
  const auto deadline = steady_clock::now() + kUntilSeen;
  for (;;) {
    if (auto why = served_by_rank_0([&] { return failure(store_); })) return why;
    if (steady_clock::now() >= deadline) return std::nullopt;
    std::this_thread::sleep_for(milliseconds(20));
  }
}

void StartStore::started() { set(str(prefix_, "/started/", rank_), ""); }

void StartStore::tell_failure(const std::string& why) {
  if (blames_another(why)) return;
  try {
    if (store_.add(prefix_ + "/failures", 1) > 1) return;
    store_.set(prefix_ + "/failed",
               why.starts_with("rank ") ? why : str("rank ", rank_, " failed: ", why));
  } catch (const CommError&) {
    // Rank 0 is gone, and the store with it.
  }
}

StartWatch::StartWatch(StartStore& store, milliseconds timeout, std::function<void()> stop)
    : store_(store), stop_(std::move(stop)) {
  thread_ = thread_without_signals(
      [this, deadline = steady_clock::now() + timeout, timeout] { loop(deadline, timeout); });
}

StartWatch::~StartWatch() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void StartWatch::check_on() const {
  const std::lock_guard lock(mutex_);
  if (!reason_.empty()) throw CommError(reason_);
}

void StartWatch::loop(steady_clock::time_point deadline, milliseconds timeout) {
  // Connected at the first look: most starts are over before.
  std::unique_ptr<Store> own;
  std::unique_lock lock(mutex_);
  for (;;) {
    if (wake_.wait_for(lock, kBetweenLooks, [this] { return over_; })) return;
    lock.unlock();
    std::string why;
    try {
      if (own == nullptr) own = store_.connect_again(kWatchAnswer);
      const auto found = served_by_rank_0([&] { return store_.failure(*own); });
      if (found) why = str(kPeerLost, ": ", *found);
    } catch (const CommError& e) {
      own = nullptr;
      if (blames_another(e.what())) why = e.what();
      // Otherwise no answer, for now.
    }
    // Not another one's fault that the store knows of, so that it is told.
    if (why.empty() && steady_clock::now() >= deadline) {
      why = str("not all have connected within ", timeout.count(), " ms");
    }
    lock.lock();
    if (why.empty() || over_) continue;
    reason_ = why;
    lock.unlock();
    stop_();
    return;
  }
}

}  // namespace lockstep::comm
