// The command-line flag by which a run is broken on purpose.
#pragma once

#include "lockstep/distributed/faults/fault.h"

#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace lockstep {

struct FaultFlags {
  std::vector<std::string> faults;  // as parse_fault() takes them
};

CLI::Option* add_fault_flags(CLI::App& app, FaultFlags& flags);

std::vector<Fault> parse_faults(const FaultFlags& flags);

/// "--fault nan:rank=1,step=5 is on: this run is broken on purpose: ...", a line for each; for the
/// console and for run.json.
std::vector<std::string> fault_warnings(const FaultFlags& flags);

}  // namespace lockstep
