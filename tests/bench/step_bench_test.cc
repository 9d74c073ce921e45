#include "lockstep/bench/step_bench.h"

#include "lockstep/base/error.h"
#include "lockstep/distributed/comm/thread_group.h"

#include <doctest/doctest.h>
#include <omp.h>

#include <cmath>
#include <vector>

namespace lockstep::bench {
namespace {

TEST_CASE("every way is measured, and all ranks have the same walls") {
  spawn(3, [](ProcessGroup& group) {
    omp_set_num_threads(1);
    const StepBenchOptions options{
        .workload = {.task = {.model = "resnet8", .images = {.image_size = 8}}, .batch = 2},
        .ways = {{.mode = DdpMode::kLocal},
                 {.mode = DdpMode::kNaive},
                 {.mode = DdpMode::kBucketed, .cap_mb = 0.1},
                 {.mode = DdpMode::kOverlapped, .cap_mb = 0.1},
                 {.mode = DdpMode::kOverlapped, .cap_mb = 0.1, .sync_every = 4}},
        .rounds = 3,
        .warmup = 1};
    int calls = 0;
    const auto costs = measure_ways(options, group, [&](int done, int all) {
      if (done != calls++ || all != 20) throw Error(str("progress ", done, " of ", all));
    });
    if (calls != (group.rank() == 0 ? 20 : 0)) throw Error("progress belongs to rank 0");
    if (costs.size() != options.ways.size()) throw Error("a way is missing");
    Tensor walls = Tensor::zeros({5}, DType::kF64), all = Tensor::zeros({15}, DType::kF64);
    for (size_t i = 0; i < costs.size(); ++i) {
      const WayCost& cost = costs[i];
      walls.mutable_data<double>()[i] = cost.wall;
      const bool talks = options.ways[i].mode != DdpMode::kLocal;
      if (cost.forward <= 0 || cost.backward <= 0 || cost.cpu <= 0 || cost.wall_p90 < cost.wall)
        throw Error(cost.way.name() + ": not measured");
      if ((cost.comm > 0) != talks) throw Error(cost.way.name() + ": communication");
    }
    group.all_gather(all, walls)->wait();
    for (int i = 0; i < 15; ++i) {
      if (all.data<double>()[i] != walls.data<double>()[i % 5]) throw Error("ranks differ");
    }
  });
}

TEST_CASE("the efficiency is the share of what backward could cover") {
  const auto cost = [](double wall, double backward, double comm, double cpu) {
    WayCost c;
    c.wall = wall;
    c.backward = backward;
    c.comm = comm;
    c.cpu = cpu;
    return c;
  };
  // 300 ms of computing, 200 of them backward; 100 ms of communication, of which 75 were hidden and
  // 20 are the processor's.
  const auto e = overlap_efficiency(cost(300, 200, 0, 300), cost(400, 200, 100, 320),
                                    cost(325, 200, 100, 320));
  CHECK(e.efficiency == doctest::Approx(0.75));
  CHECK(e.bound_bucketed == doctest::Approx(0.8));
  CHECK(e.bound_overlapped == doctest::Approx(0.8));
  CHECK(e.additivity == doctest::Approx(1));
  // Overlapped, communication took the processor half as long.
  const auto less = overlap_efficiency(cost(300, 200, 0, 300), cost(400, 200, 100, 320),
                                       cost(325, 200, 100, 310));
  CHECK(less.bound_bucketed == doctest::Approx(0.8));
  CHECK(less.bound_overlapped == doctest::Approx(0.9));
  // More communication than backward: backward is all that can be covered.
  const auto more = overlap_efficiency(cost(300, 200, 0, 300), cost(800, 200, 500, 300),
                                       cost(600, 200, 500, 300));
  CHECK(more.efficiency == doctest::Approx(1));
  CHECK(more.bound_bucketed == doctest::Approx(1));
  CHECK(to_text(e).find("0.75") != std::string::npos);
  CHECK(to_text(e).find("little") == std::string::npos);
  const auto off = overlap_efficiency(cost(300, 200, 0, 300), cost(460, 200, 100, 320),
                                      cost(325, 200, 100, 320));
  CHECK(to_text(off).find("says little") != std::string::npos);
}

TEST_CASE("names and tables") {
  CHECK(Way{.mode = DdpMode::kLocal}.name() == "local");
  CHECK(
      Way{.mode = DdpMode::kOverlapped, .cap_mb = 2.5, .last_cap_mb = 1, .sync_every = 4}.name() ==
      "overlapped, 2.5 MB, last 1 MB, every 4");
  WayCost local, slow;
  local.way.mode = DdpMode::kLocal;
  local.wall = 100;
  slow.wall = 150;
  CHECK(cost_table({local, slow}).find("| overlapped, 25 MB | 150.0 | 0.0 | 1.500 |") !=
        std::string::npos);
}

}  // namespace
}  // namespace lockstep::bench
