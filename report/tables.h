// The report's tables of buckets and of ranks, as HTML.
#pragma once

#include "lockstep/report/breakdown.h"
#include "lockstep/report/plan_names.h"

#include <span>
#include <string>
#include <vector>

namespace lockstep::report {

/// A row for each bucket; `critical` is marked (-1: none).
std::string bucket_table(std::span<const BucketSummary> buckets,
                         const std::vector<PlannedBucket>& plan, int critical);

/// A row for each rank.
std::string rank_table(std::span<const RankSummary> ranks);

}  // namespace lockstep::report
