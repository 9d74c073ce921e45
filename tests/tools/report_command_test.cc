// lockstep report, of real runs.
#include "lockstep/tests/examples/trainer_process.h"
#include "lockstep/tests/report/trace_check.h"
#include "lockstep/tests/support/process.h"
#include "lockstep/tests/support/temp_dir.h"

#include <doctest/doctest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace lockstep {
namespace {

using testing::Process;
using testing::read_text;
using testing::TempDir;

std::unique_ptr<Process> report(const std::vector<std::string>& arguments) {
  std::vector<std::string> command{testing::program_path("tools/lockstep"), "report"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  auto process = std::make_unique<Process>(command);
  process->wait(testing::kDeadline);
  return process;
}

void has(const std::string& text, const std::string& part) {
  CHECK_MESSAGE(text.find(part) != text.npos, "wanted \"", part, "\" in:\n", text.substr(0, 2000));
}

auto lines(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

/// Opens the page in Chromium, if it is there: its script draws, says nothing, and fetches nothing.
void look_at(const std::string& page, const TempDir& dir) {
  if (std::system("command -v chromium > /dev/null 2>&1") != 0) {
    std::puts("SKIPPED: there is no chromium to open the page in");
    return;
  }
  Process browser({"chromium", "--headless", "--no-sandbox", "--disable-gpu",
                   "--disable-background-networking", "--disable-component-update",
                   "--no-first-run", "--user-data-dir=" + (dir / "browser"),
                   "--log-net-log=" + (dir / "net.json"), "--enable-logging=stderr", "--v=0",
                   "--dump-dom", "file://" + page});
  REQUIRE(browser.ends_within(testing::kDeadline));
  CHECK_MESSAGE(browser.err().find("CONSOLE") == std::string::npos, browser.err());
  has(browser.out(), ">bucket 0 · ");
  has(browser.out(), ">computation</text>");
  const std::string log = read_text(dir / "net.json");
  has(log, "report.html");  // it is a log of this page
  const std::string key = "\"url\":\"http";
  for (size_t at = log.find(key); at != log.npos; at = log.find(key, at + 1)) {
    const std::string address = log.substr(at + 7, log.find('"', at + 7) - at - 7);
    // What the browser asks of its maker by itself.
    CHECK_MESSAGE((address.find("google") != log.npos || address.find("gvt1.com") != log.npos),
                  address);
  }
}

TEST_CASE("a run with two ranks: three sentences, a page that opens, a trace in the format") {
  const TempDir dir;
  const std::string run = dir / "run";
  const auto trained = testing::run_trainer({"--nproc", "2", "--epochs", "2", "--output-dir", run,
                                             "--emulated-link", "1gbit", "--log-interval", "10"});
  REQUIRE_MESSAGE(trained->exit_code() == 0, trained->err());
  const auto shown = report({run});
  REQUIRE_MESSAGE(shown->exit_code() == 0, shown->err());
  CHECK(shown->err().empty());
  has(shown->out(), "A typical step takes ");
  CHECK(lines(shown->out()) == 4);
  CHECK(testing::trace_fault(read_text(run + "/trace.json")) == "");
  const std::string page = read_text(run + "/report.html");
  has(page, "resnet8 on digits · 2 ranks");
  has(page, "fc.weight");
  CHECK(page.find("Beware") == page.npos);
  look_at(run + "/report.html", dir);

  // Written elsewhere, and again over the first.
  CHECK(report({run, "-o", dir / "a.html", "--trace", dir / "a.json"})->exit_code() == 0);
  CHECK(read_text(dir / "a.html") == page);
  CHECK(report({run})->exit_code() == 0);
}

TEST_CASE("a run that was killed has a report of what was before its last log interval") {
  const TempDir dir;
  const std::string run = dir / "run";
  const auto training =
      testing::start_trainer({"--epochs", "100000", "--output-dir", run, "--log-interval", "5"});
  for (int tries = 0; tries < 2400; ++tries) {
    if (lines(read_text(run + "/metrics.jsonl")) >= 2) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  ::kill(training->pid(), SIGKILL);
  training->wait(testing::kDeadline);
  const auto shown = report({run});
  REQUIRE_MESSAGE(shown->exit_code() == 0, shown->err());
  has(read_text(run + "/report.html"), "has not ended as it was meant to");
}

TEST_CASE("what is no run is refused in one line") {
  const TempDir dir;
  testing::write_file(dir / "file", "");
  for (const std::string name : {"absent", "file", "."}) {
    const auto refused = report({dir / name});
    CHECK(refused->exit_code() == 1);
    CHECK(refused->out().empty());
    CHECK(lines(refused->err()) == 1);
    has(refused->err(), "--output-dir");
  }
  CHECK(report({})->exit_code() == 2);
  has(report({"--help"})->out(), "Example: lockstep report ");
}

}  // namespace
}  // namespace lockstep
