// What ranks that are processes learn of one that dies, stops, fails, leaves, or calls something
// else.
#include "lockstep/distributed/comm/tcp_store.h"
#include "lockstep/tests/support/eventually.h"
#include "lockstep/tests/support/process.h"

#include <doctest/doctest.h>

#include <csignal>
#include <memory>
#include <string>
#include <vector>

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using testing::Process;
using Ranks = std::vector<std::unique_ptr<Process>>;

constexpr int kSize = 3;
constexpr const char* kBucket = "bucket 3: conv1.weight ... fc.bias, 12 parameters";

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

Ranks start(const std::string& mode, int victim,
            const std::vector<std::pair<std::string, std::string>>& more = {},
            int started = kSize) {
  const uint16_t port = TcpStore({.serve = true, .token = "t"}).port();
  Ranks ranks;
  for (int r = 0; r < started; ++r) {
    testing::ProcessOptions options{.env = {{"RANK", std::to_string(r)},
                                            {"WORLD_SIZE", std::to_string(kSize)},
                                            {"MASTER_ADDR", "127.0.0.1"},
                                            {"MASTER_PORT", std::to_string(port)},
                                            {"LOCKSTEP_TOKEN", "t"}}};
    options.env.insert(options.env.end(), more.begin(), more.end());
    ranks.push_back(std::make_unique<Process>(
        std::vector<std::string>{testing::program_path("tests/distributed/watch_rank"), mode,
                                 std::to_string(victim)},
        options));
  }
  return ranks;
}

/// What a rank that failed says, and after how long.
struct Failure {
  int after_ms = -1;
  std::string text;
};

Failure failure_of(Process& rank) {
  CHECK(rank.wait(milliseconds(15'000)) == 1);
  const std::string out = rank.out();
  REQUIRE_MESSAGE(out.rfind("after ", 0) == 0, out, rank.err());
  return {std::stoi(out.substr(6)), out};
}

/// The three jobs in which each rank in turn is the victim, all at once.
std::vector<Ranks> start_each(const std::string& mode) {
  std::vector<Ranks> jobs;
  for (int victim = 0; victim < kSize; ++victim) jobs.push_back(start(mode, victim));
  return jobs;
}

TEST_CASE("a killed rank is named by every other one, whichever it is and wherever it dies") {
  for (const std::string mode : {"kill", "kill-later", "kill-outside"}) {
    auto jobs = start_each(mode);
    for (int victim = 0; victim < kSize; ++victim) {
      CAPTURE(mode);
      CAPTURE(victim);
      for (int r = 0; r < kSize; ++r) {
        if (r == victim) continue;
        const Failure failure =
            failure_of(*jobs[static_cast<size_t>(victim)][static_cast<size_t>(r)]);
        CHECK(failure.after_ms < 5000);
        CAPTURE(failure.text);
        CHECK(contains(failure.text, "rank " + std::to_string(victim) + " is dead (gone so far: "));
        CHECK(contains(failure.text, kBucket));
        for (int other = 0; other < kSize; ++other) {
          if (other != victim) {
            CHECK(!contains(failure.text, "rank " + std::to_string(other) + " is dead"));
          }
        }
      }
    }
  }
}

TEST_CASE("a rank that fails tells the others why") {
  auto jobs = start_each("throw");
  for (int victim = 0; victim < kSize; ++victim) {
    CAPTURE(victim);
    for (int r = 0; r < kSize; ++r) {
      const Failure failure =
          failure_of(*jobs[static_cast<size_t>(victim)][static_cast<size_t>(r)]);
      CAPTURE(failure.text);
      if (r == victim) {
        CHECK(contains(failure.text, "ms: out of disk"));
      } else {
        CHECK(contains(failure.text, "a peer was lost or is late: in collective 5: rank " +
                                         std::to_string(victim) + " failed: out of disk"));
      }
    }
  }
}

TEST_CASE("a rank that is stopped for a while costs time and nothing else") {
  std::vector<std::string> undisturbed;
  for (auto& rank : start("none", 0)) {
    CHECK(rank->wait() == 0);
    undisturbed.push_back(rank->out());
  }
  auto ranks = start("stop", 1);
  CHECK(testing::eventually([&] { return contains(ranks[1]->out(), "stops"); }));
  std::this_thread::sleep_for(milliseconds(3000));
  ::kill(ranks[1]->pid(), SIGCONT);
  for (size_t r = 0; r < kSize; ++r) {
    CHECK(ranks[r]->wait() == 0);
    CHECK(ranks[r]->err() == "");
    const std::string out = ranks[r]->out();
    CHECK(out.substr(out.find("30 rounds")) == undisturbed[r]);
  }
}

TEST_CASE("a rank that is stopped for longer is warned of, then named, and not called dead") {
  std::vector<Ranks> jobs;
  for (int victim = 0; victim < kSize; ++victim) {
    jobs.push_back(start("stop", victim, {{"TEST_STALL_MS", "1000"}, {"TEST_TIMEOUT_MS", "4000"}}));
  }
  for (int victim = 0; victim < kSize; ++victim) {
    CAPTURE(victim);
    auto& ranks = jobs[static_cast<size_t>(victim)];
    const std::string name = "rank " + std::to_string(victim);
    std::string warnings;
    for (int r = 0; r < kSize; ++r) {
      if (r == victim) continue;
      Process& rank = *ranks[static_cast<size_t>(r)];
      const Failure failure = failure_of(rank);
      CAPTURE(failure.text);
      CHECK(contains(failure.text, "in collective 5"));
      CHECK(contains(failure.text, kBucket));
      CHECK(contains(failure.text, name));
      CHECK(!contains(failure.text, "is dead"));
      CHECK(!contains(failure.text, "rank " + std::to_string(3 - victim - r) + " is "));
      warnings += rank.err();
    }
    CAPTURE(warnings);
    CHECK(contains(warnings, "in collective 5, all_reduce(sum, f32, 10000 elements) [" +
                                 std::string(kBucket) + "]: " + name + " "));
    CHECK(contains(warnings, "the timeout is 4 s"));
  }
}

TEST_CASE("a rank that is busy elsewhere is late, and what it did last is told") {
  auto ranks = start("idle", 1, {{"TEST_STALL_MS", "1000"}, {"TEST_TIMEOUT_MS", "4000"}});
  for (const size_t r : {0, 2}) {
    const Failure failure = failure_of(*ranks[r]);
    CHECK_MESSAGE(contains(failure.text, "rank 1 is in no collective for "), failure.text);
    CHECK_MESSAGE(contains(failure.text, "after collective 4, all_reduce"), failure.text);
  }
  CHECK(contains(ranks[0]->err(), "rank 0 has waited "));
}

TEST_CASE("a barrier on one rank only: both calls and what they are about, on every rank") {
  for (auto& rank : start("barrier", 2)) {
    const Failure failure = failure_of(*rank);
    CHECK_MESSAGE(contains(failure.text, "rank 0 calls all_reduce(sum, f32, 10000 elements) [" +
                                             std::string(kBucket) +
                                             "], rank 2 calls barrier() [before the checkpoint]"),
                  failure.text);
  }
}

TEST_CASE("a rank that waits for some that have ended") {
  auto ranks = start("leave", 1);
  CHECK(ranks[0]->wait() == 0);
  const Failure failure = failure_of(*ranks[1]);
  CHECK(failure.after_ms < 5000);
  CHECK_MESSAGE(contains(failure.text, "after 5 collectives of this group"), failure.text);
}

TEST_CASE("a rank that never arrives is named") {
  for (auto& rank : start("none", 0, {{"TEST_START_MS", "1500"}}, 2)) {
    CHECK(rank->wait() == 1);
    CHECK_MESSAGE(contains(rank->err(), "did not come"), rank->err());
    CHECK_MESSAGE(contains(rank->err(), "within 1500 ms: 2"), rank->err());
  }
}

}  // namespace
}  // namespace lockstep
