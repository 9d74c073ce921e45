// The parser of files of cuDNN's plans: what it accepts is the same after it was written and read
// again.

// sources: train/plan_file.cc io/file.cc tensor/plan_book.cc

#include "lockstep/base/error.h"
#include "lockstep/train/plan_file.h"

#include <cstdlib>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;
  try {
    const PlanFile file =
        plan_file_from_json(std::string(reinterpret_cast<const char*>(data), size), "fuzz");
    if (plan_file_from_json(to_json(file), "fuzz") != file) std::abort();
  } catch (const IoError&) {
  }
  return 0;
}
