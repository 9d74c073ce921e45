// A file of the plans that were found to be the fastest (tensor/plan_book.h):
//
//   {"format": 1, "library": "cuDNN 9.19.0", "device": "NVIDIA H200",
//    "plans": {"convolution 256 56 56 64 ...": "31 2=13 3=0", ...}}
#pragma once

#include "lockstep/tensor/plan_book.h"

#include <string>

namespace lockstep {

struct PlanFile {
  PlanOrigin origin;
  PlanBook::Entries plans;
  bool operator==(const PlanFile&) const = default;
};

std::string to_json(const PlanFile& plans);

/// Throws IoError, which names `file` and says what helps, for anything that is not of this form.
PlanFile plan_file_from_json(const std::string& text, const std::string& file);

/// Throws IoError also where it cannot be read, or is larger than 16 MiB.
PlanFile read_plan_file(const std::string& path);

}  // namespace lockstep
