#include "lockstep/bench/step_bench.h"

#include "lockstep/base/error.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <numeric>
#include <random>

namespace lockstep::bench {
namespace {

/// The smallest value that at least the fraction `q` do not exceed.
double quantile(std::vector<double> values, double q) {
  check(!values.empty(), "quantile: wanted at least one value");
  std::sort(values.begin(), values.end());
  const auto n = static_cast<double>(values.size());
  return values[static_cast<size_t>(std::max(std::ceil(q * n), 1.0)) - 1];
}

template <class Fn>
double median_of(const std::vector<StepCost>& steps, Fn&& part) {
  std::vector<double> values;
  for (const StepCost& step : steps) values.push_back(part(step));
  return quantile(std::move(values), 0.5);
}

/// The walls of the slowest rank, the same bits on every rank.
void take_slowest(std::vector<StepCost>& steps, ProcessGroup& group) {
  Tensor walls = Tensor::empty({static_cast<int64_t>(steps.size())}, DType::kF64);
  for (size_t i = 0; i < steps.size(); ++i) walls.mutable_data<double>()[i] = steps[i].wall_ms;
  group.all_reduce(walls, ReduceOp::kMax)->wait();
  for (size_t i = 0; i < steps.size(); ++i) steps[i].wall_ms = walls.data<double>()[i];
}

WayCost summary_of(const Way& way, const std::vector<StepCost>& steps) {
  WayCost cost{.way = way};
  std::vector<double> walls;
  for (const StepCost& step : steps) walls.push_back(step.wall_ms);
  cost.wall = quantile(walls, 0.5);
  cost.wall_p90 = quantile(walls, 0.9);
  cost.forward = median_of(steps, [](auto& s) { return s.times.of(Activity::kForward); });
  cost.backward = median_of(steps, [](auto& s) { return s.times.of(Activity::kBackward); });
  cost.comm = median_of(steps, [](auto& s) { return s.times.comm_total; });
  cost.hidden = median_of(steps, [](auto& s) { return s.times.comm_hidden; });
  cost.exposed = median_of(steps, [](auto& s) { return s.times.comm_exposed; });
  cost.cpu = median_of(steps, [](auto& s) { return s.cpu_ms; });
  for (double* part : {&cost.wall, &cost.wall_p90, &cost.forward, &cost.backward, &cost.comm,
                       &cost.hidden, &cost.exposed, &cost.cpu}) {
    *part /= way.sync_every;
  }
  return cost;
}

}  // namespace

std::vector<WayCost> measure_ways(const StepBenchOptions& options, ProcessGroup& group,
                                  const StepBenchProgress& progress) {
  const size_t n = options.ways.size();
  check(n > 0 && options.rounds > 0, "measure_ways: wanted at least one way and one round");
  std::vector<std::unique_ptr<Contender>> contenders;
  for (const Way& way : options.ways) {
    contenders.push_back(std::make_unique<Contender>(options.workload, way, group));
  }

  std::vector<std::vector<StepCost>> steps(n);
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), size_t{0});
  std::mt19937 dice(1);  // the same on every rank
  const int all = (options.warmup + options.rounds) * static_cast<int>(n);
  int done = 0;
  for (int round = -options.warmup; round < options.rounds; ++round) {
    std::shuffle(order.begin(), order.end(), dice);
    for (const size_t i : order) {
      if (progress && group.rank() == 0) progress(done, all);
      group.barrier()->wait();
      const StepCost cost = contenders[i]->step();
      if (round >= 0) steps[i].push_back(cost);
      ++done;
    }
  }
  std::vector<WayCost> costs;
  for (size_t i = 0; i < n; ++i) {
    take_slowest(steps[i], group);
    costs.push_back(summary_of(options.ways[i], steps[i]));
  }
  return costs;
}

OverlapEfficiency overlap_efficiency(const WayCost& local, const WayCost& bucketed,
                                     const WayCost& overlapped) {
  OverlapEfficiency result;
  const double coverable = std::max(std::min(local.backward, bucketed.comm), 1e-9);
  result.efficiency = (bucketed.wall - overlapped.wall) / coverable;
  const auto bound = [&](const WayCost& way) {
    const double processor = std::max(0.0, way.cpu - local.cpu);
    return std::clamp((bucketed.comm - processor) / coverable, 0.0, 1.0);
  };
  result.bound_bucketed = bound(bucketed);
  result.bound_overlapped = bound(overlapped);
  result.additivity = bucketed.wall / std::max(local.wall + bucketed.comm, 1e-9);
  return result;
}

std::string cost_table(const std::vector<WayCost>& costs) {
  std::string text =
      "| ms | step | p90 | relative | forward | backward | communication | hidden | exposed | "
      "processor |\n|---|---|---|---|---|---|---|---|---|---|\n";
  for (const WayCost& c : costs) {
    char line[256];
    std::snprintf(line, sizeof line,
                  "| %s | %.1f | %.1f | %.3f | %.1f | %.1f | %.1f | %.1f | %.1f | %.1f |\n",
                  c.way.name().c_str(), c.wall, c.wall_p90,
                  c.wall / std::max(costs.front().wall, 1e-9), c.forward, c.backward, c.comm,
                  c.hidden, c.exposed, c.cpu);
    text += line;
  }
  return text;
}

std::string to_text(const OverlapEfficiency& e) {
  char line[256];
  std::snprintf(
      line, sizeof line,
      "overlap efficiency %.2f; communication's own processor time leaves at most %.2f as "
      "overlapped steps pay it, %.2f as bucketed ones do (bucketed = %.2f x (local + "
      "communication)%s)",
      e.efficiency, e.bound_overlapped, e.bound_bucketed, e.additivity,
      std::abs(e.additivity - 1) > 0.05 ? ": more than 5 % off, so it says little" : "");
  return line;
}

}  // namespace lockstep::bench
