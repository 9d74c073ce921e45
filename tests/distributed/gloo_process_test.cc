// Gloo with ranks as processes, started by hand: lost, stopped and disagreeing peers.
#include "lockstep/distributed/comm/tcp_store.h"
#include "lockstep/tests/support/eventually.h"
#include "lockstep/tests/support/process.h"

#include <doctest/doctest.h>

#include <memory>

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using testing::Process;

uint16_t free_port() { return TcpStore({.serve = true, .token = "t"}).port(); }

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string rank_program() { return testing::program_path("tests/distributed/rank_program"); }

/// The environment of one rank.
testing::ProcessOptions rank_env(int rank, int size, uint16_t port, const std::string& token = "t",
                                 const std::string& timeout_ms = "2000") {
  return {.env = {{"RANK", std::to_string(rank)},
                  {"WORLD_SIZE", std::to_string(size)},
                  {"MASTER_ADDR", "127.0.0.1"},
                  {"MASTER_PORT", std::to_string(port)},
                  {"LOCKSTEP_TOKEN", token},
                  {"TEST_START_MS", "10000"},
                  {"TEST_TIMEOUT_MS", timeout_ms}}};
}

std::vector<std::unique_ptr<Process>> start(int size, const std::vector<std::string>& arguments,
                                            const std::string& timeout_ms = "2000") {
  std::vector<std::string> command{rank_program()};
  command.insert(command.end(), arguments.begin(), arguments.end());
  const uint16_t port = free_port();
  std::vector<std::unique_ptr<Process>> ranks;
  for (int r = 0; r < size; ++r) {
    ranks.push_back(std::make_unique<Process>(command, rank_env(r, size, port, "t", timeout_ms)));
  }
  return ranks;
}

TEST_CASE("processes: collectives") {
  auto ranks = start(3, {"collectives"});
  for (int r = 0; r < 3; ++r) {
    auto& p = *ranks[static_cast<size_t>(r)];
    CHECK(p.wait() == 0);
    CHECK(p.err() == "");
    CHECK(p.out() == "rank " + std::to_string(r) + " of 3 gloo is done\n");
  }
}

TEST_CASE("processes: ranks that disagree fail by an exception, not by a signal") {
  for (auto& p : start(3, {"mismatch"})) {
    CHECK(p->wait() == 1);
    CHECK(contains(p->err(),
                   "rank 0 calls all_reduce(sum, f32, 1000 elements), rank 1 calls "
                   "all_reduce(sum, f32, 2000 elements)"));
  }
}

TEST_CASE("processes: a killed or departed peer is known long before the timeout") {
  for (const char* how : {"kill", "exit"}) {
    CAPTURE(how);
    auto ranks = start(3, {"reduce-until", how}, "30000");
    for (size_t r = 0; r < 2; ++r) {
      CHECK(ranks[r]->wait() == 1);
      CHECK(contains(ranks[r]->err(), "a peer was lost"));
      const std::string out = ranks[r]->out();
      REQUIRE(contains(out, "failed after "));
      // At once where a connection tells of it; the watch looks twice, a second apart.
      CHECK(std::stoi(out.substr(13)) < 4000);
    }
    CHECK(contains(ranks[0]->err() + ranks[1]->err(), "gone so far: rank 2"));
  }
}

TEST_CASE("processes: a stopped peer is known at the timeout") {
  auto ranks = start(3, {"reduce-until", "stop"});
  for (size_t r = 0; r < 2; ++r) {
    CHECK(ranks[r]->wait(milliseconds(15'000)) == 1);
    CHECK(contains(ranks[r]->err(), "a peer was lost or is late"));
  }
}

TEST_CASE("processes: a wrong token, a rank that never comes, a busy port, no token") {
  const uint16_t port = free_port();
  auto env = rank_env(0, 3, port);
  env.env[5].second = "600";
  Process first({rank_program(), "collectives"}, env);
  CHECK(testing::eventually([&] {
    Process intruder({rank_program(), "collectives"}, rank_env(1, 3, port, "wrong"));
    return intruder.wait() == 1 && contains(intruder.err(), "refused this job's token");
  }));
  CHECK(first.wait() == 1);
  CHECK(contains(first.err(), "of 3 ranks these did not come"));
  CHECK(contains(first.err(), "1, 2"));

  TcpStore other({.serve = true, .token = "another job"});
  Process busy({rank_program(), "collectives"}, rank_env(0, 2, other.port()));
  CHECK(busy.wait() == 1);
  CHECK(contains(busy.err(), "is in use (another job?)"));

  auto homeless = rank_env(0, 2, port, "");
  homeless.env.insert(homeless.env.end(), {{"HOME", ""}, {"XDG_CONFIG_HOME", ""}});
  Process bare({rank_program(), "collectives"}, homeless);
  CHECK(bare.wait() == 1);
  CHECK(contains(bare.err(), "LOCKSTEP_TOKEN is not set"));
}

}  // namespace
}  // namespace lockstep
