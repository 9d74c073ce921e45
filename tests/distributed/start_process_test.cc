// Ranks that are processes and do not get as far as a group: killed on the way, or two with one
// number. Nobody starts them but this test, so nobody ends those that are left.
#include "lockstep/distributed/comm/tcp_store.h"
#include "lockstep/tests/support/process.h"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::Process;
using Variable = std::pair<std::string, std::string>;

constexpr int kSize = 3;
// Far beyond what a rank may take to notice, and less than a test may take.
constexpr const char* kStartMs = "20000";

/// The first `started` ranks of three, one of which gets a variable more.
std::vector<std::unique_ptr<Process>> start(int one, const Variable& more, int started = kSize) {
  const uint16_t port = TcpStore({.serve = true, .token = "t"}).port();
  std::vector<std::unique_ptr<Process>> ranks;
  for (int r = 0; r < started; ++r) {
    testing::ProcessOptions options{.env = {{"RANK", std::to_string(r)},
                                            {"WORLD_SIZE", std::to_string(kSize)},
                                            {"MASTER_ADDR", "127.0.0.1"},
                                            {"MASTER_PORT", std::to_string(port)},
                                            {"LOCKSTEP_TOKEN", "t"},
                                            {"TEST_START_MS", kStartMs}}};
    if (r == one) options.env.push_back(more);
    ranks.push_back(std::make_unique<Process>(
        std::vector<std::string>{testing::program_path("tests/distributed/watch_rank"), "none",
                                 "0"},
        options));
  }
  return ranks;
}

/// Every other rank ends soon after the victim, killed at `point`, and says who is dead.
void check_killed_at(const std::string& point, int victim, int started = kSize) {
  CAPTURE(point);
  CAPTURE(victim);
  auto ranks = start(victim, {"LOCKSTEP_FAILPOINT", point}, started);
  CHECK(ranks[static_cast<size_t>(victim)]->wait() == 137);
  const auto killed = steady_clock::now();
  for (int r = 0; r < started; ++r) {
    if (r == victim) continue;
    Process& rank = *ranks[static_cast<size_t>(r)];
    CHECK(rank.wait() == 1);
    CHECK(steady_clock::now() - killed < milliseconds(5000));
    // Whose own start was over fails in its first collective, and says so on its output.
    const std::string text = rank.err() + rank.out();
    CAPTURE(text);
    CHECK(text.find("a peer was lost or is late: ") != std::string::npos);
    CHECK(text.find("rank " + std::to_string(victim) + " is dead") != std::string::npos);
  }
}

TEST_CASE("a rank that is killed while the ranks connect is named by every other one") {
  for (const char* point : {"make_process_group.after_meeting", "gloo_connect.before_addresses",
                            "gloo_connect.before_peer", "gloo_connect.before_peer@2"}) {
    for (int victim = 0; victim < kSize; ++victim) check_killed_at(point, victim);
  }
}

TEST_CASE("a rank that is killed while another one has not come yet is named, not that one") {
  check_killed_at("rendezvous.after_hello", 1, 2);
}

TEST_CASE("two processes with one RANK are found at once, by all") {
  for (const char* twice : {"0", "1"}) {
    auto ranks = start(2, {"RANK", twice});
    const auto begin = steady_clock::now();
    for (auto& rank : ranks) {
      CHECK(rank->wait() == 1);
      const std::string wanted = std::string("two processes have RANK ") + twice;
      CHECK_MESSAGE(rank->err().find(wanted) != std::string::npos, rank->err());
    }
    CHECK(steady_clock::now() - begin < milliseconds(5000));
  }
}

}  // namespace
}  // namespace lockstep
