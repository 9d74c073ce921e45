#include "lockstep/distributed/comm/rank_news.h"

#include "lockstep/distributed/comm/store_reads.h"

#include <chrono>
#include <utility>

namespace lockstep::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

}  // namespace

RankNews::RankNews(std::unique_ptr<Store> store, std::string prefix, int rank, int size)
    : store_(std::move(store)),
      prefix_(std::move(prefix)),
      rank_(rank),
      news_(static_cast<size_t>(size)) {
  for (PeerNews& news : news_) news.heard = steady_clock::now();
}

template <class Call>
bool RankNews::with_store(Call&& call) {
  // A connection may have been closed for another reason than rank 0's end; a second one is not.
  for (int attempt = 0; attempt < 2; ++attempt) {
    {
      const std::lock_guard lock(mutex_);
      if (lost_) return false;
    }
    try {
      call(*store_);
      note_answer(true);
      return true;
    } catch (const StoreClosed&) {
      if (attempt == 1) lost();
    } catch (const std::exception&) {
      note_answer(false);
      return false;
    }
  }
  return false;
}

void RankNews::note_answer(bool answers) {
  const std::lock_guard lock(mutex_);
  answers_ = answers;
}

void RankNews::lost() {
  const std::lock_guard lock(mutex_);
  lost_ = true;
  if (rank_ != 0 && news_[0].gone == 0) news_[0].gone = ++departures_;
}

bool RankNews::tell(const Heartbeat& beat) {
  return with_store([&](Store& store) { store.set(str(prefix_, "beat/", rank_), to_text(beat)); });
}

void RankNews::tell(const LastWords& words) {
  with_store([&](Store& store) {
    const int64_t number = store.add(prefix_ + "words", 1);
    store.set(str(prefix_, "words/", number), to_text(words));
  });
}

bool RankNews::ask() {
  if (!ask_gone()) return false;
  ask_words();  // afterwards: who is gone and has left none is dead
  return true;
}

bool RankNews::ask_gone() {
  return with_store([&](Store& store) {
    const auto gone = value_of(store, Store::kGone);
    if (!gone) return;
    const std::lock_guard lock(mutex_);
    for (const int rank : ranks_of(*gone)) {
      if (rank < 0 || rank == rank_ || rank >= static_cast<int>(news_.size())) continue;
      PeerNews& news = news_[static_cast<size_t>(rank)];
      if (news.gone == 0) news.gone = ++departures_;
    }
  });
}

void RankNews::ask_words() {
  with_store([&](Store& store) {
    const auto count = value_of(store, prefix_ + "words");
    if (!count) return;
    const auto numbers = ranks_of(*count);
    if (numbers.empty()) return;
    for (int64_t k = 1; k <= numbers[0]; ++k) {
      {
        const std::lock_guard lock(mutex_);
        if (words_read_.count(k) > 0) continue;
      }
      const auto text = value_of(store, str(prefix_, "words/", k));
      if (!text) continue;  // its rank has not come further yet
      const auto words = parse_last_words(*text);
      const std::lock_guard lock(mutex_);
      if (!words_read_.insert(k).second || !words) continue;
      if (words->rank == rank_ || words->rank >= static_cast<int>(news_.size())) continue;
      PeerNews& news = news_[static_cast<size_t>(words->rank)];
      news.words.push_back(*words);
      news.order.push_back(k);
    }
  });
}

void RankNews::ask_beats(const std::vector<int>& ranks) {
  for (const int rank : ranks) {
    if (rank == rank_) continue;
    const bool answered = with_store([&](Store& store) {
      const auto text = value_of(store, str(prefix_, "beat/", rank));
      if (!text) return;
      auto beat = parse_heartbeat(*text);
      if (!beat) return;
      const std::lock_guard lock(mutex_);
      PeerNews& news = news_[static_cast<size_t>(rank)];
      if (news.beat && news.beat->count == beat->count) return;
      news.beat = std::move(beat);
      news.heard = steady_clock::now();
    });
    if (!answered) return;
  }
}

std::vector<PeerNews> RankNews::all() const {
  const std::lock_guard lock(mutex_);
  return news_;
}

bool RankNews::answers() const {
  const std::lock_guard lock(mutex_);
  return answers_;
}

}  // namespace lockstep::comm
