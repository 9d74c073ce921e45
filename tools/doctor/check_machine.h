// What is wrong with a machine, and what to do about it.
#pragma once

#include "lockstep/tools/doctor/machine.h"

#include <string>
#include <vector>

namespace lockstep::doctor {

enum class Level {
  kProblem,  // no job of several processes can run here
  kWarning,  // some jobs cannot, or run slowly
  kNote,
};

struct Finding {
  Level level = Level::kNote;
  std::string what;
  std::string remedy;
};

/// The worst first.
std::vector<Finding> check_machine(const Machine& machine);

}  // namespace lockstep::doctor
