#include "lockstep/base/str.h"
#include "lockstep/tools/doctor/check_machine.h"
#include "lockstep/tools/doctor/loopback.h"

#include "command.h"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <iostream>
#include <memory>

namespace lockstep::tools {
namespace {

using doctor::Finding;
using doctor::Level;

constexpr double kSlow = 100e6;  // bytes a second; a quiet machine of 2020 has ten times that

const char* name_of(Level level) {
  switch (level) {
    case Level::kProblem:
      return "problem";
    case Level::kWarning:
      return "warning";
    case Level::kNote:
      return "note";
  }
  return "";
}

std::string in_words(const doctor::Loopback& loopback) {
  if (!loopback.error.empty()) return loopback.error;
  char text[128];
  std::snprintf(text, sizeof text, "2 ranks, %.0f MB in %.1f ms: %.0f MB/s",
                static_cast<double>(loopback.bytes) / 1e6, loopback.seconds * 1e3,
                static_cast<double>(loopback.bytes) / loopback.seconds / 1e6);
  return text;
}

void add_loopback(const doctor::Loopback& loopback, std::vector<Finding>& findings) {
  if (!loopback.error.empty()) {
    findings.insert(
        findings.begin(),
        {Level::kProblem, "two ranks of this machine cannot work together: " + loopback.error,
         "look for a firewall on 127.0.0.1, and at the limits above"});
  } else if (static_cast<double>(loopback.bytes) < loopback.seconds * kSlow) {
    findings.push_back({Level::kWarning,
                        "communication within this machine is slow: " + in_words(loopback),
                        "other programs may keep the processors busy"});
  }
}

int run(bool as_json) {
  const doctor::Machine machine = doctor::read_machine();
  std::vector<Finding> findings = doctor::check_machine(machine);
  const doctor::Loopback loopback = doctor::measure_loopback();
  add_loopback(loopback, findings);
  auto facts = doctor::facts(machine);
  facts.emplace_back("all-reduce", in_words(loopback));
  const bool well = findings.empty() || findings[0].level != Level::kProblem;

  if (as_json) {
    nlohmann::ordered_json json;
    json["well"] = well;
    for (const auto& [name, value] : facts) json["facts"][name] = value;
    json["findings"] = nlohmann::ordered_json::array();
    for (const Finding& f : findings) {
      json["findings"].push_back(
          {{"level", name_of(f.level)}, {"what", f.what}, {"remedy", f.remedy}});
    }
    // Variables may hold anything.
    std::cout << json.dump(2, ' ', false, decltype(json)::error_handler_t::replace) << "\n";
    return well ? 0 : 1;
  }
  for (const auto& [name, value] : facts) std::printf("%-16s %s\n", name.c_str(), value.c_str());
  std::printf("\n");
  for (const Finding& f : findings) {
    std::printf("%s: %s\n  remedy: %s\n", name_of(f.level), f.what.c_str(), f.remedy.c_str());
  }
  std::printf("%s\n", well ? "jobs can run here" : "no job of several processes can run here");
  return well ? 0 : 1;
}

}  // namespace

Command doctor_command(CLI::App& program) {
  CLI::App* app = program.add_subcommand(
      "doctor",
      "Look at this machine and this shell: can jobs run here, and what stands in the way?");
  app->footer(
      "Example: lockstep doctor --json\n"
      "Exit codes: 0 a job of several processes can run here, 1 none can.");
  const auto as_json = std::make_shared<bool>(false);
  app->add_flag("--json", *as_json, "For programs");
  return {app, [as_json] { return run(*as_json); }};
}

}  // namespace lockstep::tools
