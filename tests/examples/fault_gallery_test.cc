// docs/what_goes_wrong.md shows commands and what they say. They are run here, and have to say it.
#include "lockstep/distributed/faults/fault.h"
#include "lockstep/tests/examples/trainer_process.h"
#include "lockstep/tests/support/temp_dir.h"

#include <doctest/doctest.h>

#include <sstream>
#include <string>
#include <vector>

namespace lockstep {
namespace {

using testing::kDeadline;
using testing::Process;
using testing::program_path;

/// A command on the page, with what is quoted of its output.
struct Shown {
  std::string command;
  std::vector<std::string> lines;
  int exit_code = 0;
};

std::vector<Shown> shown_on(const std::string& page) {
  std::istringstream in(page);
  std::vector<Shown> all;
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("```")) {
      inside = line == "```console";
    } else if (inside && line.starts_with("$ ")) {
      all.push_back({line.substr(2), {}});
    } else if (inside && line.starts_with("exit code ")) {
      all.back().exit_code = std::stoi(line.substr(10));
    } else if (inside && line != "...") {
      all.back().lines.push_back(line);
    }
  }
  return all;
}

/// Whether `line` is `quoted`, where "..." stands for anything. A launcher's mark does not count.
bool matches(std::string line, const std::string& quoted) {
  if (line.starts_with("[rank 0] ")) line.erase(0, 9);
  size_t at = 0, begin = 0;
  for (bool first = true;; first = false) {
    const size_t dots = quoted.find("...", begin);
    const std::string piece = quoted.substr(begin, dots - begin);
    if (dots == quoted.npos) {
      return first ? line == piece : line.size() >= at + piece.size() && line.ends_with(piece);
    }
    const size_t found = line.find(piece, at);
    if (found == line.npos || (first && found != 0)) return false;
    at = found + piece.size();
    begin = dots + 3;
  }
}

/// "train ..." and "verify ..." as the page explains them.
std::vector<std::string> command_of(const std::string& text) {
  std::istringstream in(text);
  std::string word;
  in >> word;
  std::vector<std::string> command;
  if (word == "verify") {
    command = {program_path("tools/lockstep"), "verify"};
  } else if (word == "train") {
    command = {program_path("examples/train_resnet/train_resnet"),
               "--nproc",
               "3",
               "--epochs",
               "1",
               "--threads",
               "1"};
  }
  REQUIRE_MESSAGE(!command.empty(), text);
  while (in >> word) command.push_back(word);
  return command;
}

TEST_CASE("what the page quotes is what the programs say") {
  const std::vector<Shown> all = shown_on(testing::read_text("docs/what_goes_wrong.md"));
  CHECK(all.size() >= 14);
  for (const Shown& shown : all) {
    CAPTURE(shown.command);
    const testing::TempDir logs;  // of the launcher
    Process process(command_of(shown.command),
                    {.env = {{"RANK", ""}, {"WORLD_SIZE", ""}, {"TMPDIR", logs / ""}}});
    process.ends_within(kDeadline);
    CHECK(process.exit_code() == shown.exit_code);
    const std::string output = process.out() + process.err();
    INFO(output);
    CHECK(!shown.lines.empty());
    std::istringstream in(output);
    size_t found = 0;
    for (std::string line; std::getline(in, line);) {
      if (found < shown.lines.size() && matches(line, shown.lines[found])) ++found;
    }
    CHECK_MESSAGE(found == shown.lines.size(), "it does not say, in its place: ",
                  found < shown.lines.size() ? shown.lines[found] : "");
  }
}

TEST_CASE("every fault is on the page") {
  const std::string page = testing::read_text("docs/what_goes_wrong.md");
  std::istringstream names(fault_names());
  for (std::string name; std::getline(names >> std::ws, name, ',');) {
    CHECK_MESSAGE(page.find("\n### " + name + ":") != page.npos, "there is no section about ",
                  name);
    CHECK_MESSAGE(page.find("--fault " + name) != page.npos, "there is no command with ", name);
  }
}

TEST_CASE("run.json says that a run was broken on purpose, and nobody goes on from it") {
  const testing::TempDir dir;
  const std::string out = dir / "out";
  const std::vector<std::string> arguments = {"--nproc",   "2", "--epochs",     "1",
                                              "--threads", "1", "--output-dir", out};
  std::vector<std::string> broken = arguments;
  broken.insert(broken.end(), {"--fault", "no-scale"});
  CHECK(testing::run_trainer(broken)->exit_code() == 0);
  CHECK(testing::read_text(out + "/run.json").find("broken_on_purpose") != std::string::npos);
  std::vector<std::string> resumed = arguments;
  resumed.insert(resumed.end(), {"--resume", "auto"});
  const auto refused = testing::run_trainer(resumed);
  CHECK(refused->exit_code() == 2);
  CHECK(refused->err().find("wanted --fault no-scale as in the checkpoint, got none") !=
        std::string::npos);
}

TEST_CASE("matches") {
  CHECK(matches("a 12 b", "a ... b"));
  CHECK(matches("a 12 b", "... b"));
  CHECK(matches("a 12 b", "a ..."));
  CHECK(!matches("xa 12 b", "a ..."));
  CHECK(!matches("a 12 bx", "... b"));
  CHECK(!matches("ab", "ab ... ab"));
}

}  // namespace
}  // namespace lockstep
