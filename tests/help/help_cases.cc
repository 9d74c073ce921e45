// Does a program's --help say what its parser does? build_defs/lockstep.bzl makes a test of this
// for every program that parses its command line with CLI11, so a new option, command or program is
// covered once it exists. Programs answer for themselves (train/command_line.h,
// LOCKSTEP_COMMAND_LINE).
#include "lockstep/base/str.h"
#include "lockstep/tests/support/process.h"
#include "lockstep/tests/support/regex.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace lockstep {
namespace {

using Json = nlohmann::json;
using testing::Process;
using Words = std::vector<std::string>;

/// The program's path, this test's first argument; doctest passes over it.
const std::string& program() {
  static const std::string path = [] {
    std::ifstream in("/proc/self/cmdline");
    std::string word;
    std::getline(in, word, '\0');
    std::getline(in, word, '\0');
    return word;
  }();
  return path;
}
std::string program_name() { return program().substr(program().rfind('/') + 1); }

struct Answer {
  int code = 0;
  std::string out, err;
};

Answer ask(const char* task, const Words& arguments,
           std::vector<std::pair<std::string, std::string>> environment = {}) {
  Words command{program()};
  command.insert(command.end(), arguments.begin(), arguments.end());
  environment.emplace_back("LOCKSTEP_COMMAND_LINE", task);
  Process process(command, {.env = environment});
  REQUIRE_MESSAGE(process.ends_within(std::chrono::milliseconds(60'000)), program());
  return {process.exit_code(), process.out(), process.err()};
}

/// A program, or one of its commands.
struct Part {
  Words path;  // {"inspect"}; empty: the program
  Json parser;
  std::string help;

  std::string name() const {
    std::string text = program_name();
    for (const std::string& word : path) text += " " + word;
    return text;
  }
};

std::vector<Part> parts() {
  const Answer answer = ask("describe", {});
  REQUIRE_MESSAGE(answer.code == 0, answer.err);
  std::vector<Part> all;
  const std::function<void(const Json&, const Words&)> walk = [&](const Json& parser,
                                                                  const Words& path) {
    Words arguments = path;
    arguments.push_back("--help");
    const Answer help = ask("", arguments);
    CHECK_MESSAGE(help.code == 0, help.err);
    all.push_back({path, parser, help.out});
    for (const Json& command : parser["commands"]) {
      Words deeper = path;
      deeper.push_back(command["name"]);
      walk(command, deeper);
    }
  };
  walk(Json::parse(answer.out), {});
  return all;
}

/// The lines of the help that list options: "  --lr FLOAT=0.1     ...", "  -h,--help   ...".
std::set<std::string> names_in(const std::string& help) {
  std::set<std::string> names;
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("  -")) continue;
    const size_t end = line.find(' ', 2);
    std::istringstream listed(line.substr(2, end == line.npos ? end : end - 2));
    for (std::string name; std::getline(listed, name, ',');) {
      names.insert(name.substr(0, name.find('{')));
    }
  }
  return names;
}

std::set<std::string> names_of(const Json& parser) {
  std::set<std::string> names;
  for (const Json& option : parser["options"]) {
    for (const Json& name : option["names"]) names.insert(name);
  }
  return names;
}

TEST_CASE("the help lists the options of the parser, and no others") {
  for (const Part& part : parts()) {
    CAPTURE(part.name());
    const auto shown = names_in(part.help), known = names_of(part.parser);
    for (const std::string& name : known) CHECK_MESSAGE(shown.contains(name), name);
    for (const std::string& name : shown) CHECK_MESSAGE(known.contains(name), name);
    CHECK(known.contains("--help"));
    for (const Json& command : part.parser["commands"]) {
      CHECK(part.help.find("\n  " + command["name"].get<std::string>() + " ") != std::string::npos);
    }
  }
}

TEST_CASE("the defaults that the help shows are accepted, and are in force") {
  for (const Part& part : parts()) {
    CAPTURE(part.name());
    for (const Json& option : part.parser["options"]) {
      const std::string wanted = option["default"], name = option["name"];
      if (!option["takes_value"] || wanted.empty()) continue;
      CAPTURE(name);
      const bool positional = option["names"].empty();
      if (!positional) {
        // The help says it where it lists the option.
        CHECK(part.help.find("=" + wanted) != std::string::npos);
        Words arguments = part.path;
        arguments.push_back("--" + name + "=" + wanted);
        const Answer given = ask("values", arguments);
        const bool lacks_others = given.err.find("required") != std::string::npos;
        CHECK_MESSAGE((given.code == 0 || lacks_others), given.err);
      }
    }
    const Answer bare = ask("check", part.path);
    if (bare.code != 0) {  // it wants more
      CHECK_MESSAGE(bare.err.find("required") != std::string::npos, bare.err);
      continue;
    }
    Json in_force = Json::parse(bare.out);
    for (const std::string& word : part.path) in_force = Json(in_force[word]);
    for (const Json& option : part.parser["options"]) {
      const std::string name = option["name"];
      if (!in_force.contains(name)) continue;
      CHECK_MESSAGE(in_force[name] == option["default"], name);
    }
    // A default in words is not looked at here, and goes stale.
    CHECK(!std::regex_search(part.help, std::regex("\\(default[:=]? *[^)]")));
  }
}

/// The command lines among the examples of a help: in the lines after one that begins with
/// "Example", or in that line itself, what begins with the program's name, up to a comment after
/// two spaces.
std::vector<std::string> examples_in(const std::string& help) {
  static const std::regex line_of("^(?:Examples?:)? *((?:[A-Z_]+=\\S+ )*)(\\S+)(?: (.*))?$");
  std::vector<std::string> examples;
  std::istringstream lines(help);
  bool begun = false;
  for (std::string line; std::getline(lines, line);) {
    begun = begun || line.starts_with("Example");
    std::smatch match;
    if (!begun || !std::regex_match(line, match, line_of) || match[2] != program_name()) continue;
    std::string text = line.substr(static_cast<size_t>(match.position(1)));
    text = text.substr(0, text.find("  "));
    examples.push_back(text.substr(0, text.find_last_not_of(' ') + 1));
  }
  return examples;
}

TEST_CASE("each program and each command has examples, and they are right") {
  for (const Part& part : parts()) {
    CAPTURE(part.name());
    const auto examples = examples_in(part.help);
    CHECK_MESSAGE(!examples.empty(), part.help);
    for (const std::string& example : examples) {
      CAPTURE(example);
      Words arguments;
      std::vector<std::pair<std::string, std::string>> environment;
      std::istringstream words(example);
      bool named = false;
      for (std::string word; words >> word;) {
        const size_t equals = word.find('=');
        if (named) {
          arguments.push_back(word);
        } else if (equals != word.npos) {
          environment.emplace_back(word.substr(0, equals), word.substr(equals + 1));
        } else {
          named = true;
        }
      }
      for (size_t i = 0; i < part.path.size(); ++i) {
        REQUIRE(i < arguments.size());
        CHECK(arguments[i] == part.path[i]);
      }
      const Answer answer = ask("check", arguments, environment);
      CHECK_MESSAGE(answer.code == 0, answer.err);
    }
  }
}

TEST_CASE("what the parser does not know is a usage error") {
  for (const Part& part : parts()) {
    Words arguments = part.path;
    arguments.push_back("--no-such-option");
    const Answer answer = ask("", arguments);
    CHECK_MESSAGE(answer.code == 2, part.name());
    CHECK_MESSAGE(std::count(answer.err.begin(), answer.err.end(), '\n') == 1, answer.err);
  }
}

}  // namespace
}  // namespace lockstep
