// Jobs over two hosts, which are network namespaces of this machine.
#include "lockstep/tests/examples/same_bits.h"

#include <doctest/doctest.h>

#include <cstdio>
#include <sstream>

namespace lockstep {
namespace {

using testing::Process;
using testing::program_path;
using testing::read_text;

constexpr int kSkipped = 77;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += "'" + word + "' ";
  return text;
}

struct Hosts {
  int code = -1;
  std::string out[2], err[2];
};

/// Whether the commands ran, one on each host.
bool run_on_hosts(const std::string& command0, const std::string& command1, Hosts& hosts,
                  const testing::TempDir& dir) {
  testing::ProcessOptions options{.env = {{"HOME", dir / "home"}, {"INSIDE", ""}}};
  for (const char* name :
       {"XDG_CONFIG_HOME", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR",
        "MASTER_PORT", "LOCKSTEP_TOKEN", "LOCKSTEP_TOKEN_FILE"}) {
    options.env.push_back({name, ""});
  }
  Process run(
      {program_path("tests/examples/two_hosts.sh"), dir.path().string(), command0, command1},
      options);
  hosts.code = run.wait(testing::kDeadline);
  if (hosts.code == kSkipped) {
    std::printf("SKIPPED: %s", run.out().c_str());
    return false;
  }
  for (int h : {0, 1}) {
    hosts.out[h] = read_text(dir / ("out" + std::to_string(h)));
    hosts.err[h] = read_text(dir / ("err" + std::to_string(h)));
  }
  CAPTURE(run.err());
  return true;
}

/// Ranks 2h and 2h + 1 as on host h, with variables only.
std::string two_ranks(int host, const std::string& variables, const std::string& command) {
  std::ostringstream text;
  text << "for r in " << 2 * host << " " << 2 * host + 1 << "; do RANK=$r WORLD_SIZE=4 "
       << variables << " " << command << " & last=$first first=$!; done; wait $last && wait $first";
  return text.str();
}

TEST_CASE("two hosts: lockstep launch on each, two ranks on each, the bits of four ranks on one") {
  const testing::TempDir dir;
  const auto launch = [&](int host) {
    return joined({program_path("tools/lockstep"), "launch", "--nproc", "2", "--nnodes", "2",
                   "--node-rank", std::to_string(host), "--master-addr", "10.77.0.1",
                   "--master-port", "29500", "--log-dir", dir / "logs", "--"}) +
           joined(testing::short_training(dir / "run"));
  };
  Hosts hosts;
  if (!run_on_hosts(launch(0), launch(1), hosts, dir)) return;
  CAPTURE(hosts.err[0]);
  CAPTURE(hosts.err[1]);
  CHECK(hosts.code == 0);
  CHECK(contains(hosts.out[0], "4 processes (gloo, 2 hosts, eth0 10.77.0.1) x 1 thread; "));
  CHECK(read_text(dir / "run/last.safetensors") == testing::checkpoint_by_nproc(4));
}

TEST_CASE("two hosts: ranks that meet by a file, and nothing listens elsewhere than on eth0") {
  // Gloo listens while ranks connect, for some milliseconds, which a busy machine may not look
  // into.
  int seen[2] = {};
  for (int attempt = 0; attempt < 5 && (seen[0] == 0 || seen[1] == 0); ++attempt) {
    const testing::TempDir dir;
    const auto ranks = [&](int host) {
      return two_ranks(host, "LOCKSTEP_INIT_METHOD=file://" + (dir / "meet"),
                       joined({program_path("tests/distributed/rank_program"), "listeners"}));
    };
    Hosts hosts;
    if (!run_on_hosts(ranks(0), ranks(1), hosts, dir)) return;
    CAPTURE(hosts.err[0]);
    CAPTURE(hosts.err[1]);
    CHECK(hosts.code == 0);
    for (int h : {0, 1}) {
      std::istringstream lines(hosts.out[h]);
      for (std::string line; std::getline(lines, line); ++seen[h]) {
        CHECK(line == (h == 0 ? "01004D0A" : "02004D0A"));  // 10.77.0.1, 10.77.0.2
      }
    }
  }
  CHECK(seen[0] >= 1);
  CHECK(seen[1] >= 1);
}

TEST_CASE("two hosts: rank 0's machine maps its own name to 127.0.1.1, as Debian does") {
  const testing::TempDir dir;
  testing::write_file(dir / "hosts0", "127.0.0.1 localhost\n127.0.1.1 host0\n");
  testing::write_file(dir / "hosts1", "127.0.0.1 localhost\n10.77.0.1 host0\n");
  const auto ranks = [&](int host) {
    return two_ranks(host, "TEST_START_MS=20000 MASTER_ADDR=host0 MASTER_PORT=29500",
                     joined({program_path("tests/distributed/rank_program"), "collectives"}));
  };
  Hosts hosts;
  if (!run_on_hosts(ranks(0), ranks(1), hosts, dir)) return;
  CAPTURE(hosts.err[0]);
  CAPTURE(hosts.err[1]);
  CHECK(hosts.code == 0);
  CHECK(contains(hosts.out[0], "rank 0 of 4 gloo is done"));
}

TEST_CASE("two hosts: a host whose user has another secret is told what to do") {
  const testing::TempDir dir;
  const auto ranks = [&](int host) {
    return "HOME=" + (dir / "home") + std::to_string(host) + "; " +
           two_ranks(host, "TEST_START_MS=3000 MASTER_ADDR=10.77.0.1 MASTER_PORT=29500",
                     joined({program_path("tests/distributed/rank_program"), "collectives"}));
  };
  Hosts hosts;
  if (!run_on_hosts(ranks(0), ranks(1), hosts, dir)) return;
  CHECK(hosts.code == 1);
  CHECK(contains(hosts.err[0], "of 4 ranks these did not come"));
  CHECK(contains(hosts.err[1], "refused this job's token"));
  CHECK(contains(hosts.err[1], "copy ~/.config/lockstep/token"));
}

}  // namespace
}  // namespace lockstep
