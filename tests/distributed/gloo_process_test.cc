// Gloo with ranks as processes, started by hand: lost, stopped and disagreeing peers.
#include "lockstep/distributed/comm/tcp_store.h"
#include "lockstep/tests/distributed/subprocess.h"

#include <doctest/doctest.h>

#include <iostream>
#include <memory>

namespace lockstep {
namespace {

using testing::Environment;
using testing::Subprocess;

uint16_t free_port() { return TcpStore({.serve = true, .token = "t"}).port(); }

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// The environment of one rank.
Environment rank_env(int rank, int size, uint16_t port, const std::string& token = "t") {
  return {{"RANK", std::to_string(rank)}, {"WORLD_SIZE", std::to_string(size)},
          {"MASTER_ADDR", "127.0.0.1"},   {"MASTER_PORT", std::to_string(port)},
          {"LOCKSTEP_TOKEN", token},      {"TEST_START_MS", "10000"},
          {"TEST_TIMEOUT_MS", "2000"}};
}

std::vector<std::unique_ptr<Subprocess>> start(const std::string& path, int size,
                                               const std::vector<std::string>& arguments) {
  std::vector<std::string> command{path};
  command.insert(command.end(), arguments.begin(), arguments.end());
  const uint16_t port = free_port();
  std::vector<std::unique_ptr<Subprocess>> ranks;
  for (int r = 0; r < size; ++r) {
    ranks.push_back(std::make_unique<Subprocess>(command, rank_env(r, size, port)));
  }
  return ranks;
}

std::string rank_program() {
  const std::string path = testing::program("tests/distributed/rank_program");
  if (path.empty()) std::cout << "SKIPPED: rank_program is not here; run by bazel test\n";
  return path;
}

TEST_CASE("processes: collectives") {
  const std::string path = rank_program();
  if (path.empty()) return;
  auto ranks = start(path, 3, {"collectives"});
  for (int r = 0; r < 3; ++r) {
    auto& p = *ranks[static_cast<size_t>(r)];
    CHECK(p.wait() == 0);
    CHECK(p.err() == "");
    CHECK(p.out() == "rank " + std::to_string(r) + " of 3 gloo is done\n");
  }
}

TEST_CASE("processes: ranks that disagree fail by an exception, not by a signal") {
  const std::string path = rank_program();
  if (path.empty()) return;
  for (auto& p : start(path, 3, {"mismatch"})) {
    CHECK(p->wait() == 1);
    CHECK(contains(p->err(),
                   "rank 0 calls all_reduce(sum, f32, 1000 elements), rank 1 calls "
                   "all_reduce(sum, f32, 2000 elements)"));
  }
}

TEST_CASE("processes: a killed or departed peer is known within milliseconds") {
  const std::string path = rank_program();
  if (path.empty()) return;
  for (const char* how : {"kill", "exit"}) {
    CAPTURE(how);
    auto ranks = start(path, 3, {"reduce-until", how});
    for (size_t r = 0; r < 2; ++r) {
      CHECK(ranks[r]->wait() == 1);
      CHECK(contains(ranks[r]->err(), "a peer was lost"));
      const std::string out = ranks[r]->out();
      REQUIRE(contains(out, "failed after "));
      CHECK(std::stoi(out.substr(13)) < 1000);
    }
    CHECK(contains(ranks[0]->err() + ranks[1]->err(), "gone so far: rank 2"));
  }
}

TEST_CASE("processes: a stopped peer is known at the timeout") {
  const std::string path = rank_program();
  if (path.empty()) return;
  auto ranks = start(path, 3, {"reduce-until", "stop"});
  for (size_t r = 0; r < 2; ++r) {
    CHECK(ranks[r]->wait(15'000) == 1);
    CHECK(contains(ranks[r]->err(), "a peer was lost or is late"));
  }
}

TEST_CASE("processes: a wrong token, a rank that never comes, a busy port, no token") {
  const std::string path = rank_program();
  if (path.empty()) return;
  const uint16_t port = free_port();
  auto env = rank_env(0, 3, port);
  env[5].second = "600";
  Subprocess first({path, "collectives"}, env);
  CHECK(testing::eventually([&] {
    Subprocess intruder({path, "collectives"}, rank_env(1, 3, port, "wrong"));
    return intruder.wait() == 1 && contains(intruder.err(), "refused this job's token");
  }));
  CHECK(first.wait() == 1);
  CHECK(contains(first.err(), "of 3 ranks these did not come"));
  CHECK(contains(first.err(), "1, 2"));

  TcpStore other({.serve = true, .token = "another job"});
  Subprocess busy({path, "collectives"}, rank_env(0, 2, other.port()));
  CHECK(busy.wait() == 1);
  CHECK(contains(busy.err(), "is in use (another job?)"));

  Subprocess bare({path, "collectives"}, rank_env(0, 2, port, ""));
  CHECK(bare.wait() == 1);
  CHECK(contains(bare.err(), "LOCKSTEP_TOKEN is not set"));
}

}  // namespace
}  // namespace lockstep
