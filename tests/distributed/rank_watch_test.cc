// What ranks tell each other, and whom a rank that waits holds responsible.
#include "lockstep/distributed/comm/rank_watch.h"

#include "lockstep/base/log.h"
#include "lockstep/distributed/comm/tcp_store.h"
#include "lockstep/tests/support/eventually.h"

#include <doctest/doctest.h>

#include <optional>

namespace lockstep::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using Where = GroupActivity::Where;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("heartbeats and last words: there and back, and nothing else") {
  const Heartbeat beat{
      7,
      {{"world", Where::kInCollective, 41, 3200, "all_reduce(...) [bucket 3: a ... b]"},
       {"world/split0/0", Where::kOutside, 0, 12, ""},
       {"other", Where::kInLetter, 1, 0, "send"}}};
  CHECK(parse_heartbeat(to_text(beat)) == beat);
  CHECK(parse_heartbeat(to_text(Heartbeat{})) == Heartbeat{});
  const LastWords words{2, true, "world", "out of disk", {{"world", 41}, {"other", 0}}};
  CHECK(parse_last_words(to_text(words)) == words);
  LastWords lines = words;
  lines.why = "one\nmore\tthing";
  CHECK(parse_last_words(to_text(lines))->why == "one more thing");
  for (const char* text : {"", "x", "1\n", "1\no\t1\t2\tg", "1\nq\t1\t2\tg\tw", "1\no\tx\t2\tg\tw",
                           "1\no\t1\t2\tg\tw\tmore", "99999999999999999999"}) {
    CAPTURE(text);
    CHECK(!parse_heartbeat(text));
  }
  for (const char* text : {"", "1", "1\tdone\tg", "-1\tdone\tg\tw", "1\tgone\tg\tw",
                           "1\tdone\tg\tw\nx\tg", "1\tdone\tg\tw\n1", "4294967296\tdone\tg\tw"}) {
    CAPTURE(text);
    CHECK(!parse_last_words(text));
  }
}

/// News of four ranks, all in collective 41 of "world" with rank 0, and heard of just now.
struct Job {
  steady_clock::time_point now = steady_clock::now();
  std::vector<PeerNews> news = std::vector<PeerNews>(4);
  Waiting waiting{.group = "world", .ranks = {1, 2, 3}, .collective = 41};
  int64_t order = 0;

  Job() {
    for (size_t r = 1; r < 4; ++r) set(r, Where::kInCollective, 41);
  }
  void set(size_t rank, Where where, int64_t done) {
    news[rank].beat = Heartbeat{1, {{"world", where, done, 3000, "op [label]"}}};
    news[rank].heard = now - milliseconds(500);
  }
  void say(int rank, bool failed, const std::string& group, const std::string& why,
           int64_t done = 41) {
    news[static_cast<size_t>(rank)].words.push_back({rank, failed, group, why, {{"world", done}}});
    news[static_cast<size_t>(rank)].order.push_back(++order);
  }
  Blame found() const { return blame(waiting, news, now); }
};

TEST_CASE("blame: the late, and what they do instead") {
  Job job;
  CHECK(!job.found().certain);
  CHECK(job.found().ranks.empty());
  CHECK(contains(job.found().text, "all ranks are in it"));
  job.set(2, Where::kOutside, 41);
  CHECK(job.found().ranks == std::vector<int>{2});
  CHECK(job.found().text ==
        "rank 2 is in no collective for 3.5 s, after collective 40, op [label]");
  job.set(3, Where::kInCollective, 40);
  CHECK(job.found().ranks == std::vector<int>{2, 3});
  CHECK(contains(job.found().text, "; rank 3 is in collective 40 for 3.5 s, op [label]"));
  job.set(3, Where::kOutside, 42);  // has left it behind already
  CHECK(job.found().ranks == std::vector<int>{2});
  job.set(2, Where::kInCollective, 41);
  job.news[2].heard = job.now - milliseconds(4000);  // stopped in the middle of it
  CHECK(job.found().ranks == std::vector<int>{2});
  CHECK(contains(job.found().text, "no sign of life for 4.0 s"));
  CHECK(!job.found().certain);
  job.news[2].beat.reset();
  CHECK(contains(job.found().text, "rank 2 is silent"));
}

TEST_CASE("blame: behind a letter, whom its other side waits for") {
  Job job;
  job.waiting.letter = true;
  job.waiting.ranks = {1};
  job.waiting.beside = {2, 3};
  job.set(1, Where::kInLetter, 41);
  CHECK(job.found().text == "rank 1 is in a letter for 3.5 s, op [label]");
  job.news[3].heard = job.now - milliseconds(4000);
  CHECK(job.found().ranks == std::vector<int>{1, 3});
  CHECK(contains(job.found().text, "; rank 3 is in collective 41 for"));
  CHECK(contains(job.found().text, "no sign of life for 4.0 s"));
  CHECK(!job.found().certain);
}

TEST_CASE("blame: the dead in the order in which they went, with the first one's last sign") {
  Job job;
  job.news[3].gone = 1;
  job.news[1].gone = 2;
  CHECK(job.found().certain);
  CHECK(job.found().ranks == std::vector<int>{3, 1});
  CHECK(contains(job.found().text,
                 "ranks 3 and 1 are dead (gone so far: rank 3, 1); rank 3 was "
                 "last heard of in collective 41 for 3.0 s, op [label]"));
  job.waiting.ranks = {2};  // the group has no other
  CHECK(!job.found().certain);
}

TEST_CASE("blame: a cause of a rank's own comes before the dead, victims after them") {
  Job job;
  job.say(1, true, "world", "all_reduce: a peer was lost or is late: rank 3 is late");
  CHECK(contains(job.found().text, "rank 1 failed: all_reduce"));
  job.news[1].gone = 1;  // it has failed, and is not dead
  job.news[3].gone = 2;
  CHECK(job.found().ranks == std::vector<int>{3});
  job.say(2, true, "", "out of disk");
  CHECK(job.found().text == "rank 2 failed: out of disk");
  job.say(3, true, "world", "rank 3: later");
  CHECK(job.found().text == "rank 2 failed: out of disk");
  job.news[2].words.clear();
  job.news[2].order.clear();
  CHECK(job.found().text == "rank 3: later");
}

TEST_CASE("blame: a rank that has ended is to blame for what it had not done") {
  Job job;
  job.news[2].gone = 1;
  job.say(2, false, "", "", 42);
  job.set(2, Where::kOutside, 42);
  CHECK(!job.found().certain);
  CHECK(job.found().ranks.empty());
  job.waiting.collective = 42;
  job.set(1, Where::kInCollective, 42);
  job.set(3, Where::kInCollective, 42);
  CHECK(job.found().certain);
  CHECK(contains(job.found().text,
                 "rank 2 has ended (gone so far: rank 2), after 42 collectives of this group"));
  job.news[2].words[0].failed = true;  // by an exception, outside of all groups
  CHECK(contains(job.found().text, "rank 2 failed: "));
  job.waiting.collective = 41;
  CHECK(!job.found().certain);
  Job other;
  other.say(1, true, "world/split0/0", "of another group");
  CHECK(!other.found().certain);
  Job victim;  // says that it fails, and leaves
  victim.say(1, true, "world", "a peer was lost or is late: rank 3 is late");
  victim.say(1, false, "", "", 41);
  CHECK(contains(victim.found().text, "rank 1 failed: a peer was lost or is late: rank 3"));
}

/// A rank of which a test decides what it is in.
struct Rank {
  std::shared_ptr<OpLog> log = std::make_shared<OpLog>();
  std::shared_ptr<Store> store;
  std::unique_ptr<RankWatch> watch;
  std::shared_ptr<RankWatch::Watched> watched;
  std::mutex mutex;
  std::string failed;

  Rank(std::shared_ptr<Store> own, int rank, milliseconds stall) : store(std::move(own)) {
    watch = std::make_unique<RankWatch>(
        store->connect_again(milliseconds(1000)), "g/",
        RankWatchOptions{
            .rank = rank, .size = 3, .stall_warning = stall, .beat = milliseconds(100)});
    watched = watch->attach({"g", rank, {0, 1, 2}, log}, [this](std::string why) {
      const std::lock_guard lock(mutex);
      failed = std::move(why);
    });
  }
  ~Rank() { leave(); }
  void leave() {
    if (watch == nullptr) return;
    watch->detach(watched);
    watch.reset();
    store.reset();
  }
  void enter(int64_t collective, const char* label) {
    Op op;
    op.sequence = op.collective = collective;
    op.label = OpText(label);
    log->queued(op);
    log->begun(op);
  }
  void finish(int64_t collective) {
    Op op;
    op.sequence = op.collective = collective;
    log->finished(op, true);
  }
  std::string reason() {
    const std::lock_guard lock(mutex);
    return failed;
  }
};

struct Three {
  explicit Three(milliseconds stall = milliseconds(60'000)) {
    auto server =
        std::make_shared<TcpStore>(TcpStoreOptions{.serve = true, .token = "t", .rank = 0});
    for (int r = 0; r < 3; ++r) {
      const std::shared_ptr<Store> store =
          r == 0 ? server
                 : std::make_shared<TcpStore>(
                       TcpStoreOptions{.port = server->port(), .token = "t", .rank = r});
      ranks.push_back(std::make_unique<Rank>(store, r, stall));
    }
  }
  /// Rank 0 last: its store stays for the others.
  ~Three() {
    while (!ranks.empty()) ranks.pop_back();
  }
  Rank& operator[](size_t r) { return *ranks[r]; }
  std::vector<std::unique_ptr<Rank>> ranks;
};

TEST_CASE("watch: a rank that left before is found without a word from any connection") {
  Three job;
  for (size_t r = 0; r < 3; ++r) {
    job[r].enter(0, "first");
    job[r].finish(0);
  }
  job[2].leave();
  CHECK(job[0].reason() == "");  // outside of a collective nothing fails
  job[0].enter(1, "second");
  CHECK(testing::eventually([&] { return job[0].reason() != ""; }));
  CHECK(job[0].reason() ==
        "barrier() [second]: a peer was lost or is late: in collective 1: rank 2 has ended (gone "
        "so far: rank 2), after 1 collectives of this group");
  CHECK(job[1].reason() == "");
}

TEST_CASE("watch: what a rank failed of reaches the others") {
  Three job;
  for (size_t r = 0; r < 2; ++r) job[r].enter(0, "bucket 0");
  job[2].watch->tell_failure(*job[2].watched, "out of disk");
  for (size_t r = 0; r < 2; ++r) {
    CHECK(testing::eventually(
        [&] { return contains(job[r].reason(), "rank 2 failed: out of disk"); }));
  }
}

TEST_CASE("watch: one rank warns for all that wait, once in an operation") {
  std::mutex mutex;
  std::vector<std::string> lines;
  const LogSink before = set_log_sink([&](LogLevel, std::string_view line) {
    const std::lock_guard lock(mutex);
    lines.emplace_back(line);
  });
  {
    Three job(milliseconds(700));
    for (size_t r = 0; r < 2; ++r) job[r].enter(0, "bucket 0");
    CHECK(testing::eventually([&] {
      const std::lock_guard lock(mutex);
      return !lines.empty();
    }));
    std::this_thread::sleep_for(milliseconds(600));
    CHECK(job[0].reason() == "");
  }
  set_log_sink(before);
  REQUIRE(lines.size() == 1);
  CHECK(contains(lines[0], "rank 0 has waited "));
  CHECK(
      contains(lines[0], " in collective 0, barrier() [bucket 0]: rank 2 is in no collective yet"));
  CHECK(contains(lines[0], "; the timeout is 30 s"));
}

TEST_CASE("watch: it wakes ten times a second where it is asked to, and ends at once") {
  const auto start = steady_clock::now();
  {
    Three job;
    CHECK(testing::eventually([&] {
      RankNews news(job[0].store->connect_again(milliseconds(1000)), "g/", 0, 3);
      news.ask_beats({1});
      const auto beat = news.all()[1].beat;
      return beat && beat->count >= 3;
    }));
  }
  CHECK(steady_clock::now() - start < milliseconds(4000));
}

}  // namespace
}  // namespace lockstep::comm
