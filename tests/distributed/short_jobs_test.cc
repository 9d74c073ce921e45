// Short jobs, one after the other and at once: each ends well and leaves nothing behind.
// LOCKSTEP_SHORT_JOBS=200 and LOCKSTEP_JOB_PAIRS=20 make it more than the few of the test command.
#include "lockstep/tests/distributed/sockets_of.h"
#include "lockstep/tests/support/process.h"
#include "lockstep/tests/support/temp_dir.h"

#include <doctest/doctest.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using testing::Process;

int count_from(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atoi(text) : otherwise;
}

std::unique_ptr<Process> start_job(const testing::TempDir& dir, const std::string& mode,
                                   const std::string& argument) {
  return std::make_unique<Process>(
      std::vector<std::string>{testing::program_path("tools/lockstep"), "launch", "--nproc", "3",
                               "--", testing::program_path("tests/distributed/rank_program"), mode,
                               argument},
      testing::ProcessOptions{.env = {{"TMPDIR", dir.path().string()}}});
}

std::string files_in(const testing::TempDir& dir) {
  std::string names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(dir.path())) {
    names += entry.path().string() + " ";
  }
  return names;
}

/// Orphans of a job become children of this process, which has none of its own then.
bool childless() { return ::waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD; }

TEST_CASE("short jobs in a row: no zombie, no file, no port") {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  const testing::TempDir dir;
  const int jobs = count_from("LOCKSTEP_SHORT_JOBS", 12);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < jobs; ++i) {
    CAPTURE(i);
    const auto job = start_job(dir, "short", "");
    CHECK(job->wait(milliseconds(120'000)) == 0);
    CHECK(job->err() == "");
    CHECK(files_in(dir) == "");
    CHECK(childless());
    CHECK(testing::listeners_of(::getpid()).empty());
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  std::cout << jobs << " jobs of 3 ranks in " << took.count() << " s\n";
}

TEST_CASE("pairs of jobs at once: each has its own result") {
  const testing::TempDir dir;
  const int pairs = count_from("LOCKSTEP_JOB_PAIRS", 2);
  std::string alone[2];
  for (int which : {0, 1}) {
    const auto job = start_job(dir, "work", std::to_string(20 + which));
    CHECK(job->wait(milliseconds(120'000)) == 0);
    alone[which] = job->out();
  }
  CHECK(alone[0] != alone[1]);
  std::vector<std::unique_ptr<Process>> jobs;
  for (int i = 0; i < 2 * pairs; ++i) {
    jobs.push_back(start_job(dir, "work", std::to_string(20 + i % 2)));
  }
  for (size_t i = 0; i < jobs.size(); ++i) {
    CAPTURE(i);
    CHECK(jobs[i]->wait(milliseconds(300'000)) == 0);
    CHECK(jobs[i]->out() == alone[i % 2]);
  }
  CHECK(childless());
  std::cout << pairs << " pairs of jobs at once\n";
}

}  // namespace
}  // namespace lockstep
