#include "lockstep/tests/cuda/plans/device.h"

#include "lockstep/base/error.h"
#include "lockstep/tensor/cuda/cudnn/plan.h"

#include <dlfcn.h>
#include <fstream>
#include <sstream>

namespace lockstep::testing {
namespace {

cuda::Descriptor load() {
  // It is called libcuda.so.1, so whoever asks the loader for that name gets it from now on.
  const void* driver = dlopen("tests/cuda/plans/libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  check(driver != nullptr, "the fake driver cannot be loaded: ", dlerror());
  std::ifstream file("tests/cuda/plans/h200.json");
  std::ostringstream text;
  text << file.rdbuf();
  check(file.good(), "tests/cuda/plans/h200.json cannot be read");
  return cuda::device_from_json(text.str());
}

}  // namespace

const cuda::Descriptor& h200() {
  static const cuda::Descriptor device = load();
  return device;
}

}  // namespace lockstep::testing
