// NCCL itself with ranks as processes that share one GPU, which NCCL allows if they say that they
// are different hosts. Slow, so what it shows is that results and failures are right.
#include "lockstep/distributed/comm/nccl/nccl_library.h"
#include "lockstep/distributed/comm/tcp_store.h"
#include "lockstep/tensor/backend.h"
#include "lockstep/tests/support/process.h"

#include <doctest/doctest.h>

#include <cstdio>
#include <memory>

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using testing::Process;

constexpr int kRanks = 3;
constexpr milliseconds kLong{100'000};

bool has_nccl() {
  try {
    comm::nccl_library();
    backend(Device::cuda());
    return true;
  } catch (const UnsupportedError& error) {
    std::printf("SKIPPED: %s\n", error.what());
    return false;
  }
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::vector<std::unique_ptr<Process>> start(const std::vector<std::string>& arguments,
                                            bool as_hosts = true) {
  std::vector<std::string> command{testing::program_path("tests/distributed/rank_program")};
  command.insert(command.end(), arguments.begin(), arguments.end());
  const uint16_t port = TcpStore({.serve = true, .token = "t"}).port();
  std::vector<std::unique_ptr<Process>> ranks;
  for (int r = 0; r < kRanks; ++r) {
    testing::ProcessOptions options{.env = {{"RANK", std::to_string(r)},
                                            {"WORLD_SIZE", std::to_string(kRanks)},
                                            {"MASTER_ADDR", "127.0.0.1"},
                                            {"MASTER_PORT", std::to_string(port)},
                                            {"LOCKSTEP_TOKEN", "t"},
                                            {"TEST_DEVICE", "cuda"},
                                            {"TEST_START_MS", "60000"},
                                            {"TEST_TIMEOUT_MS", "30000"},
                                            {"CUDA_VISIBLE_DEVICES", "0"},
                                            {"NCCL_SOCKET_IFNAME", "lo"},
                                            {"NCCL_IB_DISABLE", "1"}}};
    if (as_hosts) options.env.emplace_back("NCCL_HOSTID", "host" + std::to_string(r));
    ranks.push_back(std::make_unique<Process>(command, options));
  }
  return ranks;
}

TEST_CASE("nccl processes: collectives") {
  if (!has_nccl()) return;
  auto ranks = start({"collectives"});
  for (auto& rank : ranks) {
    CHECK(rank->wait(kLong) == 0);
    CHECK(rank->err() == "");
    CHECK(contains(rank->out(), "of 3 nccl is done"));
  }
}

TEST_CASE("nccl processes: a killed rank ends the others within 5 seconds") {
  if (!has_nccl()) return;
  auto ranks = start({"reduce-until", "kill"});
  for (size_t r = 0; r + 1 < kRanks; ++r) {
    CHECK(ranks[r]->wait(kLong) == 1);
    CHECK(contains(ranks[r]->err(), "a peer was lost"));
    const std::string out = ranks[r]->out();
    REQUIRE(contains(out, "failed after "));
    CHECK(std::stoi(out.substr(13)) < 5000);
  }
}

TEST_CASE("nccl processes: ranks on one GPU that are one host are named") {
  if (!has_nccl()) return;
  auto ranks = start({"collectives"}, false);
  for (auto& rank : ranks) {
    CHECK(rank->wait(kLong) == 1);
    CHECK(contains(rank->err(), "ranks 0 and 1 use the same GPU, GPU-"));
  }
}

}  // namespace
}  // namespace lockstep
