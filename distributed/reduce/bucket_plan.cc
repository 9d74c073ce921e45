#include "lockstep/distributed/reduce/bucket_plan.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace lockstep {
namespace {

double bytes_of(double cap_mb) {
  check(std::isfinite(cap_mb) && cap_mb >= 0, "plan_buckets: wanted a cap of at least 0 MiB, got ",
        cap_mb);
  return cap_mb * 1024 * 1024;
}

/// Parameter i, for the first time.
const ParamSpec& take(std::span<const ParamSpec> params, int i, std::vector<bool>& taken,
                      const char* taker) {
  const auto index = static_cast<size_t>(i);
  check(i >= 0 && index < params.size(), taker, ": it holds parameter ", i, ", but there are ",
        params.size());
  check(!taken[index], taker, ": it holds ", params[index].name, " twice");
  taken[index] = true;
  return params[index];
}

}  // namespace

BucketPlan plan_buckets(std::span<const ParamSpec> params, const BucketCaps& caps) {
  std::vector<double> limits;  // of a dtype's buckets; the last one also of those that follow
  for (double cap : caps.list_mb) limits.push_back(bytes_of(cap));
  if (limits.empty()) limits = {bytes_of(caps.first_mb), bytes_of(caps.rest_mb)};
  const double last_limit = caps.last_mb ? bytes_of(*caps.last_mb) : 0;

  std::map<DType, std::vector<int>> arrivals;
  for (int i = static_cast<int>(params.size()) - 1; i >= 0; --i) {
    arrivals[params[static_cast<size_t>(i)].dtype].push_back(i);
  }
  BucketPlan plan;
  for (const auto& [dtype, order] : arrivals) {
    const auto bytes = [params, &order = order](size_t k) {
      return params[static_cast<size_t>(order[k])].bytes();
    };
    size_t last = order.size();  // where the last bucket begins
    if (caps.last_mb) {
      int64_t held = bytes(--last);
      while (last > 0 && last_limit > 0 &&
             static_cast<double>(held + bytes(last - 1)) <= last_limit) {
        held += bytes(--last);
      }
    }
    size_t closed = 0;
    Bucket open{dtype, {}, 0};
    for (size_t k = 0; k < order.size(); ++k) {
      open.params.push_back(order[k]);
      open.bytes += bytes(k);
      const bool full = k < last && static_cast<double>(open.bytes) >=
                                        limits[std::min(closed, limits.size() - 1)];
      if (!full && k + 1 != last && k + 1 != order.size()) continue;
      plan.buckets.push_back(std::exchange(open, {dtype, {}, 0}));
      ++closed;
    }
  }
  // A bucket that waits for a late gradient would hold up those behind it.
  std::sort(plan.buckets.begin(), plan.buckets.end(),
            [](const Bucket& a, const Bucket& b) { return a.params.back() > b.params.back(); });
  return plan;
}

BucketPlan plan_in_order(const Planner& planner, std::span<const ParamSpec> params,
                         std::span<const int> order, const BucketCaps& caps) {
  check(order.size() == params.size(), "order of arrival: wanted ", params.size(),
        " parameters, got ", order.size());
  std::vector<ParamSpec> seen;
  std::vector<bool> taken(params.size());
  for (auto i = order.rbegin(); i != order.rend(); ++i) {
    seen.push_back(take(params, *i, taken, "order of arrival"));
  }
  BucketPlan plan = planner(seen, caps);
  check_plan(plan, seen);
  for (Bucket& bucket : plan.buckets) {
    for (int& i : bucket.params) i = order[order.size() - 1 - static_cast<size_t>(i)];
  }
  return plan;
}

void check_plan(const BucketPlan& plan, std::span<const ParamSpec> params) {
  std::vector<bool> held(params.size());
  for (size_t b = 0; b < plan.buckets.size(); ++b) {
    const Bucket& bucket = plan.buckets[b];
    check(!bucket.params.empty(), "bucket plan: bucket ", b, " is empty");
    for (int i : bucket.params) {
      const ParamSpec& param = take(params, i, held, "bucket plan");
      check(param.dtype == bucket.dtype, "bucket plan: bucket ", b, ": wanted gradients of ",
            name_of(bucket.dtype), ", got ", param.name, " of ", name_of(param.dtype));
    }
  }
  for (size_t i = 0; i < params.size(); ++i) {
    check(held[i], "bucket plan: it lacks ", params[i].name);
  }
  for (size_t b = 0; b < plan.buckets.size(); ++b) {
    int64_t bytes = 0;
    for (int i : plan.buckets[b].params) bytes += params[static_cast<size_t>(i)].bytes();
    check(bytes == plan.buckets[b].bytes, "bucket plan: bucket ", b, ": wanted ", bytes,
          " bytes, those of its gradients, got ", plan.buckets[b].bytes);
  }
}

}  // namespace lockstep
