// A bucket plan as JSON that a person can read and edit:
//
//   {
//     "format": 1,
//     "buckets": [
//       {"dtype": "f32", "bytes": 2052000, "params": ["fc.bias", "fc.weight"]},
//       ...
//     ]
//   }
//
// Buckets in launch order, parameters by name in the order in which they lie in their bucket.
#pragma once

#include "lockstep/distributed/reduce/bucket_plan.h"

#include <span>
#include <string>

namespace lockstep {

/// Ends with a line break. The plan holds each of `params` once; throws ArgumentError when it does
/// not, or when a name is not UTF-8.
std::string to_json(const BucketPlan& plan, std::span<const ParamSpec> params);

/// The plan that `text` describes, for these parameters. Sizes and dtypes are the parameters' own:
/// "dtype" and "bytes" may be left out, but what is there must be right. Throws IoError that begins
/// with `file` for what is no such JSON, for names that are no parameter, and for a plan that
/// check_plan refuses.
BucketPlan plan_from_json(const std::string& text, std::span<const ParamSpec> params,
                          const std::string& file);

}  // namespace lockstep
