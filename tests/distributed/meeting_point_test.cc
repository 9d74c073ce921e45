#include "lockstep/distributed/comm/meeting_point.h"

#include "lockstep/base/error.h"
#include "lockstep/tests/distributed/environment_of.h"

#include <doctest/doctest.h>

#include <set>

namespace lockstep {
namespace {

using testing::environment_of;
using testing::Variables;

const RankEnv kPlain{
    .rank = 1, .world_size = 4, .starter = "environment", .job = "", .first_host = ""};
const RankEnv kMpi{.rank = 1,
                   .world_size = 4,
                   .local_size = 4,
                   .starter = "Open MPI",
                   .job = "j",
                   .first_host = ""};
const RankEnv kSlurm{
    .rank = 1, .world_size = 4, .starter = "Slurm", .job = "s", .first_host = "node1"};
const Variables kMaster = {{"MASTER_ADDR", "host0"}, {"MASTER_PORT", "29500"}};

std::string found(const RankEnv& rank, const Variables& variables, const std::string& method = "") {
  try {
    const MeetingPoint at = meeting_point(rank, environment_of(variables), method);
    return at.file.empty() ? str(at.host, ":", at.port) : at.file;
  } catch (const ArgumentError& e) {
    return e.what();
  }
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("meeting_point: the order of what tells") {
  Variables all = kMaster;
  all["LOCKSTEP_INIT_METHOD"] = "file:///shared/job";
  CHECK(found(kPlain, all, "tcp://host9:1234") == "host9:1234");
  CHECK(found(kPlain, all, "") == "host0:29500");
  CHECK(found(kPlain, all, "env://") == "host0:29500");
  CHECK(found(kMpi, {{"LOCKSTEP_INIT_METHOD", "file:///shared/job"}}) == "/shared/job");
  CHECK(found(kPlain, {{"LOCKSTEP_INIT_METHOD", "tcp://[::1]:80"}}) == "::1:80");
  CHECK(found(kMpi, kMaster) == "host0:29500");
  CHECK(found(kSlurm, kMaster) == "host0:29500");
}

TEST_CASE("meeting_point: what the launchers leave open") {
  CHECK(found(kMpi, {}) == str("127.0.0.1:", port_of_job("j")));
  CHECK(found(kMpi, {{"MASTER_PORT", "1234"}}) == "127.0.0.1:1234");
  CHECK(found(kSlurm, {}) == str("node1:", port_of_job("s")));
  RankEnv several = kMpi;
  several.local_size = 2;
  CHECK(contains(found(several, {}), "4 ranks of Open MPI are on several machines"));
  CHECK(contains(found(several, {}), "set MASTER_ADDR"));
  CHECK(found(several, {{"MASTER_ADDR", "host0"}}) == str("host0:", port_of_job("j")));
  CHECK(contains(found(kPlain, {}), "MASTER_ADDR is not set"));
  CHECK(contains(found(kPlain, {{"MASTER_ADDR", "host0"}}), "MASTER_PORT is not set"));
}

TEST_CASE("meeting_point: torchrun keeps MASTER_PORT to itself") {
  RankEnv rank = kPlain;
  rank.job = "torchrun/none/host0/29500";
  Variables variables = kMaster;
  CHECK(found(rank, variables) == "host0:29500");
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  CHECK(found(rank, variables) == str("host0:", port_of_job(rank.job)));
}

TEST_CASE("meeting_point: what is no way to meet") {
  for (const char* bad :
       {"tcp://host", "tcp://:80", "tcp://[]:80", "tcp://host:", "tcp://host:0", "tcp://host:65536",
        "tcp://host:8x", "file://", "file://relative", "file:///folder/", "udp://h:1", "host:80"}) {
    CAPTURE(bad);
    CHECK(contains(found(kPlain, {}, bad), "got '"));
  }
  for (const char* bad : {"0", "65536", "x", "-1"}) {
    CAPTURE(bad);
    CHECK(contains(found(kPlain, {{"MASTER_ADDR", "h"}, {"MASTER_PORT", bad}}),
                   "MASTER_PORT must be"));
  }
}

TEST_CASE("port_of_job: within its range, and another one for most other jobs") {
  std::set<uint16_t> ports;
  for (int i = 0; i < 1000; ++i) {
    const uint16_t port = port_of_job(str("slurm/cluster/1234", i, ".0"));
    CHECK(port >= 20000);
    CHECK(port < 29000);
    ports.insert(port);
  }
  CHECK(ports.size() > 900);  // 947 on average
}

}  // namespace
}  // namespace lockstep
