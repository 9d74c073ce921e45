// A parameter under its dotted name, as modules list them and optimizers and the reducer take them.
#pragma once

#include "lockstep/autograd/variable.h"

#include <string>

namespace lockstep {

struct NamedParameter {
  std::string name;
  Variable parameter;
};

}  // namespace lockstep
