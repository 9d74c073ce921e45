#include "lockstep/bench/all_reduce_sweep.h"

#include "lockstep/base/error.h"
#include "lockstep/base/timeline.h"

#include <algorithm>
#include <cstdio>

namespace lockstep::bench {
namespace {

double seconds_for(const std::vector<Tensor>& tensors, ProcessGroup& group) {
  group.barrier()->wait();
  const int64_t begin = Timeline::now_ns();
  std::vector<WorkPtr> works;
  works.reserve(tensors.size());
  for (const Tensor& tensor : tensors) works.push_back(group.all_reduce(tensor));
  for (const WorkPtr& work : works) work->wait();
  Tensor slowest = Tensor::zeros({1}, DType::kF64);
  slowest.mutable_data<double>()[0] = static_cast<double>(Timeline::now_ns() - begin) * 1e-9;
  group.all_reduce(slowest, ReduceOp::kMax)->wait();
  return slowest.data<double>()[0];
}

}  // namespace

std::vector<int64_t> paper_sizes() {
  std::vector<int64_t> sizes;
  for (int64_t decade = 1'000; decade <= 10'000'000; decade *= 10) {
    for (const int64_t step : {1, 2, 5}) sizes.push_back(step * decade);
  }
  sizes.pop_back();  // 50M
  return sizes;
}

std::vector<SweepPoint> all_reduce_sweep(const SweepOptions& options, ProcessGroup& group,
                                         const std::function<void(int64_t)>& progress) {
  check(options.elements > 0 && options.repetitions > 0,
        "all_reduce_sweep: wanted at least one element and one repetition");
  Tensor all = Tensor::zeros({options.elements}, DType::kF32);
  std::vector<SweepPoint> points;
  for (const int64_t size : options.sizes) {
    check(size >= 1 && size <= options.elements, "all_reduce_sweep: wanted sizes from 1 to ",
          options.elements, ", got ", size);
    if (progress && group.rank() == 0) progress(size);
    std::vector<Tensor> tensors;
    for (int64_t at = 0; at < options.elements; at += size) {
      tensors.push_back(all.slice(at, std::min(at + size, options.elements)));
    }
    std::vector<double> seconds;
    for (int i = 0; i < options.repetitions; ++i) seconds.push_back(seconds_for(tensors, group));
    std::sort(seconds.begin(), seconds.end());
    const double median = seconds[seconds.size() / 2];
    points.push_back(
        {.size = size,
         .tensors = static_cast<int64_t>(tensors.size()),
         .seconds = median,
         .gb_per_s = static_cast<double>(options.elements) * sizeof(float) * 1e-9 / median,
         .us_per_call = median * 1e6 / static_cast<double>(tensors.size())});
  }
  return points;
}

int64_t knee_of(const std::vector<SweepPoint>& points) {
  check(!points.empty(), "knee_of: wanted at least one size");
  double best = points[0].seconds;
  for (const SweepPoint& point : points) best = std::min(best, point.seconds);
  int64_t knee = 0;
  for (const SweepPoint& point : points) {
    if (point.seconds * 100 <= (100 + kKneePercent) * best && (knee == 0 || point.size < knee))
      knee = point.size;
  }
  return knee;
}

std::string sweep_table(const std::vector<SweepPoint>& points) {
  std::string text =
      "| elements of a tensor | tensors | seconds | GB/s | us for each |\n|---|---|---|---|---|\n";
  for (const SweepPoint& p : points) {
    char line[160];
    std::snprintf(line, sizeof line, "| %lld | %lld | %.3f | %.2f | %.1f |\n",
                  static_cast<long long>(p.size), static_cast<long long>(p.tensors), p.seconds,
                  p.gb_per_s, p.us_per_call);
    text += line;
  }
  return text;
}

}  // namespace lockstep::bench
