// A tensor under a name: the unit of state dicts, optimizer state and checkpoint files.
#pragma once

#include "lockstep/tensor/tensor.h"

#include <string>

namespace lockstep {

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

}  // namespace lockstep
