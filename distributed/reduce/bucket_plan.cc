#include "lockstep/distributed/reduce/bucket_plan.h"

#include <cmath>
#include <map>
#include <utility>

namespace lockstep {

BucketPlan plan_buckets(std::span<const ParamSpec> params, const BucketCaps& caps) {
  for (double cap : {caps.first_mb, caps.rest_mb}) {
    check(std::isfinite(cap) && cap >= 0, "plan_buckets: wanted a cap of at least 0 MiB, got ",
          cap);
  }
  struct Filling {
    Bucket open;
    bool first = true;
  };
  std::map<DType, Filling> filling;
  BucketPlan plan;
  for (int i = static_cast<int>(params.size()) - 1; i >= 0; --i) {
    const ParamSpec& param = params[static_cast<size_t>(i)];
    Filling& f = filling[param.dtype];
    f.open.dtype = param.dtype;
    f.open.params.push_back(i);
    f.open.bytes += param.bytes();
    const double cap = (f.first ? caps.first_mb : caps.rest_mb) * 1024 * 1024;
    if (static_cast<double>(f.open.bytes) >= cap) {
      plan.buckets.push_back(std::exchange(f.open, Bucket{}));
      f.first = false;
    }
  }
  // What stayed open, ordered like the rest: by its last parameter, which comes latest in backward.
  std::map<int, Bucket, std::greater<>> rest;
  for (auto& [dtype, f] : filling) {
    if (!f.open.params.empty()) rest.emplace(f.open.params.back(), std::move(f.open));
  }
  for (auto& [last, bucket] : rest) plan.buckets.push_back(std::move(bucket));
  return plan;
}

}  // namespace lockstep
