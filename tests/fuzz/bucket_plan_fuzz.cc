// The parser of bucket plans: what it accepts is a plan of these parameters, and the same after it
// was written and read again.

// sources: distributed/reduce/plan_json.cc distributed/reduce/bucket_plan.cc

// sources: base/failpoint.cc base/log.cc tensor/allocator.cc tensor/memory.cc tensor/shape.cc

// sources: tensor/tensor.cc

#include "lockstep/base/error.h"
#include "lockstep/distributed/reduce/plan_json.h"

#include <cstdlib>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;
  const ParamSpec params[] = {
      {"a", {4}, DType::kF32}, {"b", {2}, DType::kF64}, {"c", {0}, DType::kF32}};
  try {
    const std::string text(reinterpret_cast<const char*>(data), size);
    const BucketPlan plan = plan_from_json(text, params, "fuzz");
    check_plan(plan, params);
    if (plan_from_json(to_json(plan, params), params, "fuzz") != plan) std::abort();
  } catch (const IoError&) {
  }
  return 0;
}
