// lockstep doctor on the machine that runs the tests.
#include "lockstep/tests/support/process.h"
#include "lockstep/tests/support/temp_dir.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdio>

namespace lockstep {
namespace {

using testing::Process;

std::unique_ptr<Process> doctor(std::vector<std::pair<std::string, std::string>> env,
                                const std::vector<std::string>& flags = {}) {
  for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCKSTEP_TOKEN"}) {
    env.insert(env.begin(), {name, ""});
  }
  std::vector<std::string> command{testing::program_path("tools/lockstep"), "doctor"};
  command.insert(command.end(), flags.begin(), flags.end());
  auto process = std::make_unique<Process>(command, testing::ProcessOptions{.env = env});
  process->wait(std::chrono::milliseconds(60'000));
  return process;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("doctor: a machine where the tests run can run jobs") {
  const testing::TempDir home;
  const auto run = doctor({{"HOME", home.path().string()}});
  CHECK(run->exit_code() == 0);
  CHECK(run->err() == "");
  for (const char* part :
       {"backends         gloo", "built for        sse3", "processors       ", "interface        ",
        "all-reduce       2 ranks, 26 MB in ", "no launcher: a program started here is alone",
        "\njobs can run here\n"}) {
    CAPTURE(part);
    CHECK(contains(run->out(), part));
  }
}

TEST_CASE("doctor: a contradiction in the environment is a problem") {
  const testing::TempDir home;
  const auto run = doctor({{"HOME", home.path().string()}, {"RANK", "1"}});
  CHECK(run->exit_code() == 1);
  CHECK(contains(run->out(),
                 "problem: the environment contradicts itself: rendezvous: WORLD_SIZE "
                 "is not set"));
  CHECK(contains(run->out(), "\nno job of several processes can run here\n"));
  const auto nowhere = doctor({{"HOME", home.path().string()}, {"TMPDIR", "/proc/nothing"}});
  CHECK(nowhere->exit_code() == 1);
  CHECK(contains(nowhere->out(), "cannot be written"));
}

TEST_CASE("doctor: a loopback that is down is found soon") {
  const std::vector<std::string> apart{"unshare", "--user", "--map-root-user", "--net"};
  auto try_it = apart, command = apart;
  try_it.emplace_back("true");
  Process allowed(try_it, {});
  if (allowed.wait() != 0) {
    std::puts("SKIPPED: no network namespaces here");
    return;
  }
  command.insert(command.end(), {testing::program_path("tools/lockstep"), "doctor"});
  const auto begin = std::chrono::steady_clock::now();
  Process run(command, {});
  CHECK(run.wait() == 1);
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(10));
  CHECK_MESSAGE(contains(run.out(), "problem: two ranks of this machine cannot work together: "),
                run.out());
}

TEST_CASE("doctor: for programs") {
  const testing::TempDir home;
  const auto run =
      doctor({{"HOME", home.path().string()}, {"OMP_NUM_THREADS", "4096"}}, {"--json"});
  CHECK(run->exit_code() == 0);
  const auto json = nlohmann::json::parse(run->out());
  CHECK(json["well"] == true);
  CHECK(contains(json["facts"]["all-reduce"], "MB/s"));
  bool found = false;
  for (const auto& finding : json["findings"]) {
    found |=
        finding["level"] == "warning" && contains(finding["what"], "OMP_NUM_THREADS is 4096, but");
  }
  CHECK(found);
  const auto odd =
      doctor({{"HOME", home.path().string()}, {"RANK", "\xff"}, {"WORLD_SIZE", "2"}}, {"--json"});
  CHECK(odd->exit_code() == 1);
  CHECK(nlohmann::json::parse(odd->out())["well"] == false);
}

}  // namespace
}  // namespace lockstep
