// Which parameters travel in which bucket, from a run's bucket_plan.json.
#pragma once

#include <string>
#include <vector>

namespace lockstep::report {

struct PlannedBucket {
  double bytes = 0;  // of its gradients
  std::vector<std::string> params;
};

/// Empty when there is no such file, or it is no bucket plan.
std::vector<PlannedBucket> read_plan_names(const std::string& directory);

}  // namespace lockstep::report
