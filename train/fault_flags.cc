#include "lockstep/train/fault_flags.h"

#include "lockstep/base/error.h"

#include <CLI/CLI.hpp>

namespace lockstep {
namespace {

/// Empty, or what is wrong with it.
std::string check_text(const std::string& text) {
  try {
    parse_fault(text);
    return "";
  } catch (const ArgumentError& error) {
    return error.what();
  }
}

}  // namespace

CLI::Option* add_fault_flags(CLI::App& app, FaultFlags& flags) {
  return app
      .add_option(
          "--fault", flags.faults,
          str("Break the run on purpose, as docs/what_goes_wrong.md shows; may be repeated. "
              "NAME[:rank=R,step=S] of ",
              fault_names()))
      ->allow_extra_args(false)
      ->check(check_text);
}

std::vector<Fault> parse_faults(const FaultFlags& flags) {
  std::vector<Fault> faults;
  for (const std::string& text : flags.faults) faults.push_back(parse_fault(text));
  return faults;
}

std::vector<std::string> fault_warnings(const FaultFlags& flags) {
  std::vector<std::string> warnings;
  for (const std::string& text : flags.faults) {
    warnings.push_back(str("--fault ", text,
                           " is on: this run is broken on purpose: ", describe(parse_fault(text))));
  }
  return warnings;
}

}  // namespace lockstep
