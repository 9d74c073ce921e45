// What the data-parallel engine itself costs, on one process: `overlapped` beside `local`, and the
// timeline on beside off.
//
// Where a model's memory lies can make it faster or slower for as long as it lives, so all is made
// anew many times. Each time the three take turns step by step, in random order, and give one
// ratio: the median of their steps'. Printed are the median of these ratios, which are independent,
// and the upper 95 % bound of it, which follows from their order alone, whatever their
// distribution.

#include "lockstep/bench/contender.h"
#include "lockstep/distributed/comm/single_group.h"
#include "lockstep/train/command_line.h"

#include <omp.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <memory>
#include <random>
#include <vector>

namespace {

using namespace lockstep;

const std::array<bench::Way, 3> kWays = {{{.mode = DdpMode::kLocal, .timeline = false},
                                          {.mode = DdpMode::kOverlapped, .timeline = false},
                                          {.mode = DdpMode::kOverlapped, .timeline = true}}};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

void report(const char* what, std::vector<double> ratios) {
  std::sort(ratios.begin(), ratios.end());
  const auto n = static_cast<double>(ratios.size());
  const auto upper = static_cast<size_t>(std::ceil(n / 2 + 1.645 * std::sqrt(n) / 2));
  std::printf("| %s | %+.2f %% | %+.2f %% | %zu |\n", what, 100 * (median(ratios) - 1),
              100 * (ratios[std::min(upper, ratios.size() - 1)] - 1), ratios.size());
}

}  // namespace

int main(int argc, char** argv) {
  bench::Workload workload;
  int threads = 1, times = 40, pairs = 5;
  CLI::App app{"What the data-parallel engine costs on one process", "engine_cost"};
  app.footer("Example: engine_cost --model resnet18 --size 32 --times 30");
  app.add_option("--model", workload.task.model, "resnet18, resnet50, ...");
  app.add_option("--size", workload.task.images.image_size, "height and width of the images");
  app.add_option("--batch", workload.batch, "images in a step");
  app.add_option("--threads", threads, "OpenMP threads");
  app.add_option("--times", times, "times that all is made anew; at least 30 for a claim");
  app.add_option("--pairs", pairs, "interleaved steps of each, each time");
  if (const auto code = parse_command_line(app, normalize_flags(argc, argv))) return *code;
  omp_set_num_threads(threads);

  const auto group = make_single_group();
  std::mt19937 dice(1);
  std::array<size_t, kWays.size()> order = {0, 1, 2};
  std::vector<double> engine, timeline, local_ms;
  for (int t = 0; t < times; ++t) {
    std::array<std::unique_ptr<bench::Contender>, kWays.size()> all;
    std::shuffle(order.begin(), order.end(), dice);
    for (size_t k : order) {
      all[k] = std::make_unique<bench::Contender>(workload, kWays[k], *group);
    }
    std::array<double, kWays.size()> ms{};
    std::vector<double> engine_here, timeline_here;
    for (int p = -2; p < pairs; ++p) {  // two to warm up
      std::shuffle(order.begin(), order.end(), dice);
      for (size_t k : order) ms[k] = all[k]->step().wall_ms;
      if (p < 0) continue;
      local_ms.push_back(ms[0]);
      engine_here.push_back(ms[1] / ms[0]);
      timeline_here.push_back(ms[2] / ms[1]);
    }
    engine.push_back(median(engine_here));
    timeline.push_back(median(timeline_here));
    std::fprintf(stderr, "\rround %d/%d", t + 1, times);
  }
  std::printf("\n%s, %d x %d, batch %d, %d thread(s); a step without the engine takes %.1f ms\n\n",
              workload.task.model.c_str(), static_cast<int>(workload.task.images.image_size),
              static_cast<int>(workload.task.images.image_size), static_cast<int>(workload.batch),
              threads, median(local_ms));
  std::printf("| | median | upper 95 %% bound | ratios |\n|---|---|---|---|\n");
  report("overlapped against local", engine);
  report("timeline on against off", timeline);
}
