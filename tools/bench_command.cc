#include "lockstep/base/error.h"
#include "lockstep/bench/all_reduce_sweep.h"
#include "lockstep/bench/charts.h"
#include "lockstep/bench/step_bench.h"
#include "lockstep/distributed/comm/launcher.h"
#include "lockstep/distributed/comm/make_process_group.h"
#include "lockstep/distributed/comm/thread_group.h"
#include "lockstep/io/atomic_file.h"
#include "lockstep/train/amp_flag.h"
#include "lockstep/train/group_flags.h"
#include "lockstep/train/threads.h"

#include <omp.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include "command.h"
#include "own_arguments.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::tools {
namespace {

using bench::OverlapEfficiency;
using bench::SweepPoint;
using bench::Way;
using bench::WayCost;

struct Common {
  int nproc = 2;
  std::optional<int> threads;
  std::string json, picture;
};

void add_common(CLI::App& app, Common& common) {
  app.add_option("-n,--nproc", common.nproc, "How many processes")->check(CLI::Range(1, 1024));
  app.add_option("--threads", common.threads,
                 "Threads of each process; not given: the machine's processors shared out")
      ->check(CLI::Range(1, 1024));
  app.add_option("--json", common.json, "Write the figures to this file, too");
  app.add_option("-o,--output", common.picture, "Draw them into this SVG file");
}

/// Starts the ranks, or is one of them: fn(group, whether it speaks).
int on_ranks(const Common& common, const GroupFlags& flags,
             const std::function<void(ProcessGroup&, bool)>& fn) {
  if (!launched()) {
    check_group_flags(flags, common.nproc);
    if (common.nproc > 1) return launch_self({.nproc = common.nproc}, own_arguments());
  }
  auto [ranks, place] = join_process_group(process_group_options(flags));
  const auto group = wrapped(std::move(ranks), flags);
  set_threads(common.threads.value_or(0), place);
  fn(*group, group->rank() == 0);
  return 0;
}

void write_picture(const std::string& path, const std::string& svg) {
  if (!path.empty()) write_file_atomically(path, svg);
}

void write_json(const std::string& path, const nlohmann::json& json) {
  if (path.empty()) return;
  write_file_atomically(path, json.dump(2) + "\n");
}

// ---- lockstep bench step ----

struct StepArguments {
  Common common;
  GroupFlags group;
  bench::Workload workload;
  std::vector<double> caps = {0, 1, 5, 10, 25, 50};
  std::vector<int> sync_every = {2, 4, 8};
  std::optional<double> last_cap_mb;
  AmpFlag amp;
  int rounds = 15;
};

nlohmann::json to_json(const std::vector<WayCost>& costs) {
  nlohmann::json list = nlohmann::json::array();
  for (const WayCost& c : costs) {
    list.push_back({{"way", c.way.name()},
                    {"mode", name_of(c.way.mode)},
                    {"bucket_cap_mb", c.way.cap_mb},
                    {"sync_every", c.way.sync_every},
                    {"step_ms", c.wall},
                    {"step_ms_p90", c.wall_p90},
                    {"forward_ms", c.forward},
                    {"backward_ms", c.backward},
                    {"communication_ms", c.comm},
                    {"hidden_ms", c.hidden},
                    {"exposed_ms", c.exposed},
                    {"processor_ms", c.cpu}});
  }
  return list;
}

void bench_step(const StepArguments& a, ProcessGroup& group, bool speaks) {
  const auto way = [&](DdpMode mode, double cap_mb, int sync_every = 1) {
    return Way{.mode = mode,
               .cap_mb = cap_mb,
               .last_cap_mb = a.last_cap_mb,
               .sync_every = sync_every,
               .precision = precision_of(a.amp)};
  };
  const auto measure = [&](const char* what, std::vector<Way> ways) {
    const auto costs =
        bench::measure_ways({.workload = a.workload, .ways = std::move(ways), .rounds = a.rounds},
                            group, [what](int done, int all) {
                              if (::isatty(2) == 0) return;
                              std::fprintf(stderr, "\r%s: step %d/%d ", what, done + 1, all);
                            });
    if (speaks && ::isatty(2) != 0) std::fprintf(stderr, "\n");
    return costs;
  };
  std::vector<Way> by_cap;
  for (const double cap : a.caps) by_cap.push_back(way(DdpMode::kOverlapped, cap));
  const std::vector<WayCost> caps = measure("caps", by_cap);
  const WayCost& best = *std::min_element(
      caps.begin(), caps.end(), [](const WayCost& x, const WayCost& y) { return x.wall < y.wall; });
  const double cap = best.way.cap_mb;  // the same on every rank, as the walls are

  std::vector<Way> ways = {way(DdpMode::kLocal, cap), way(DdpMode::kNaive, cap),
                           way(DdpMode::kBucketed, cap), way(DdpMode::kOverlapped, cap)};
  for (const int n : a.sync_every) ways.push_back(way(DdpMode::kOverlapped, cap, n));
  const std::vector<WayCost> modes = measure("modes", ways);
  if (!speaks) return;

  const OverlapEfficiency efficiency = bench::overlap_efficiency(modes[0], modes[2], modes[3]);
  const std::string what = str(
      a.workload.task.model, ", ", a.workload.batch, " ", describe_samples(a.workload.task),
      " on each of ", group.size(), " processes (", group.backend(), ") x ", omp_get_max_threads(),
      omp_get_max_threads() == 1 ? " thread" : " threads", ", ", name_of(precision_of(a.amp)));
  std::printf("%s; medians of %d steps, ways in turn\n\n%s\n", what.c_str(), a.rounds,
              bench::cost_table(modes).c_str());
  std::printf("By bucket size:\n\n%s\n%s\n", bench::cost_table(caps).c_str(),
              bench::to_text(efficiency).c_str());
  write_picture(a.common.picture, bench::step_chart(what, modes, caps));
  write_json(a.common.json, {{"model", a.workload.task.model},
                             {"samples", describe_samples(a.workload.task)},
                             {"batch_size", a.workload.batch},
                             {"world_size", group.size()},
                             {"backend", group.backend()},
                             {"threads", omp_get_max_threads()},
                             {"precision", name_of(precision_of(a.amp))},
                             {"rounds", a.rounds},
                             {"modes", to_json(modes)},
                             {"caps", to_json(caps)},
                             {"efficiency", efficiency.efficiency},
                             {"efficiency_bound_bucketed", efficiency.bound_bucketed},
                             {"efficiency_bound_overlapped", efficiency.bound_overlapped},
                             {"additivity", efficiency.additivity}});
}

Command step_command(CLI::App& bench_app) {
  CLI::App* app = bench_app.add_subcommand(
      "step",
      "What a training step costs: local, naive, bucketed, overlapped, by bucket size, and "
      "with fewer synchronisations");
  app->footer(
      "Examples:\n"
      "  lockstep bench step --nproc 2 --model resnet18\n"
      "  lockstep bench step --nproc 2 --model bert-mini --batch-size 16\n"
      "  lockstep bench step --nproc 2 --model resnet50 --image-size 224 --batch-size 8 "
      "--emulated-link 1gbit\n"
      "  bench/shaped_link.sh 1gbit -- lockstep bench step --model resnet50 --image-size 224 "
      "--batch-size 8");
  const auto a = std::make_shared<StepArguments>();
  add_common(*app, a->common);
  app->add_option("--model", a->workload.task.model,
                  "As train_resnet --model, or bert-tiny to bert-large")
      ->check(CLI::IsMember(model_task_names()));
  app->add_option("--image-size", a->workload.task.images.image_size, "Height and width, pixels")
      ->check(CLI::Range(8, 1024));
  app->add_option("--batch-size", a->workload.batch, "Images or sequences of each process")
      ->check(CLI::Range(1, 65536));
  app->add_option("--classes", a->workload.task.images.classes, "Classes")
      ->check(CLI::Range(2, 100000));
  app->add_option("--max-seq-length", a->workload.task.texts.length, "Tokens of a sequence")
      ->check(CLI::Range(1, 65536));
  app->add_option("--bucket-caps-mb", a->caps, "Bucket sizes to try")
      ->delimiter(',')
      ->check(CLI::Range(0.0, 1e6));
  app->add_option("--last-bucket-cap-mb", a->last_cap_mb, "As train_resnet's")
      ->check(CLI::Range(0.0, 1e6));
  app->add_option("--sync-every", a->sync_every, "Backwards to one synchronised one, to try")
      ->delimiter(',')
      ->check(CLI::Range(1, 1000));
  app->add_option("--rounds", a->rounds, "Steps of each way")->check(CLI::Range(1, 100000));
  add_amp_flag(*app, a->amp);
  add_group_flags(*app, a->group);
  return {app, [a] {
            return on_ranks(a->common, a->group, [&](ProcessGroup& group, bool speaks) {
              bench_step(*a, group, speaks);
            });
          }};
}

// ---- lockstep bench allreduce ----

struct SweepArguments {
  Common common;
  GroupFlags group;
  bench::SweepOptions sweep{.sizes = bench::paper_sizes()};
  bool threads_as_ranks = false;
};

void bench_all_reduce(const SweepArguments& a, ProcessGroup& group, bool speaks) {
  const std::vector<SweepPoint> points = bench::all_reduce_sweep(a.sweep, group, [](int64_t size) {
    if (::isatty(2) == 0) return;
    std::fprintf(stderr, "\rtensors of %lld elements ", static_cast<long long>(size));
  });
  if (!speaks) return;
  if (::isatty(2) != 0) std::fprintf(stderr, "\n");
  const std::string what = str(a.sweep.elements, " f32 values summed over ", group.size(),
                               " ranks (", group.backend(), ")");
  std::printf("%s\n\n%s\nlarger tensors gain less than %d %% beyond %lld elements\n", what.c_str(),
              bench::sweep_table(points).c_str(), bench::kKneePercent,
              static_cast<long long>(bench::knee_of(points)));
  write_picture(a.common.picture, bench::sweep_chart(what, points));
  nlohmann::json list = nlohmann::json::array();
  for (const SweepPoint& p : points) {
    list.push_back({{"elements", p.size},
                    {"tensors", p.tensors},
                    {"seconds", p.seconds},
                    {"gb_per_s", p.gb_per_s},
                    {"us_per_call", p.us_per_call}});
  }
  write_json(a.common.json, {{"elements", a.sweep.elements},
                             {"world_size", group.size()},
                             {"backend", group.backend()},
                             {"sizes", list}});
}

Command all_reduce_command(CLI::App& bench_app) {
  CLI::App* app = bench_app.add_subcommand(
      "allreduce", "How fast gradients are summed, cut into small or large tensors");
  app->footer(
      "Examples:\n"
      "  lockstep bench allreduce --nproc 2\n"
      "  lockstep bench allreduce --nproc 3 --ranks-as-threads --elements 1000000 --sizes "
      "1000,1000000");
  const auto a = std::make_shared<SweepArguments>();
  add_common(*app, a->common);
  app->add_option("--elements", a->sweep.elements, "f32 values in all")
      ->check(CLI::Range(int64_t{1}, int64_t{4'000'000'000}));
  app->add_option("--sizes", a->sweep.sizes, "Elements of one tensor, to try")
      ->delimiter(',')
      ->check(CLI::Range(int64_t{1}, int64_t{4'000'000'000}));
  app->add_option("--repetitions", a->sweep.repetitions, "Of each size")
      ->check(CLI::Range(1, 1000));
  app->add_flag("--ranks-as-threads", a->threads_as_ranks,
                "Ranks are threads of one process rather than processes");
  add_group_flags(*app, a->group);
  return {app, [a] {
            std::erase_if(a->sweep.sizes, [&](int64_t size) { return size > a->sweep.elements; });
            check(!a->sweep.sizes.empty(), "--sizes: wanted some of at most --elements ",
                  a->sweep.elements);
            const auto fn = [&](ProcessGroup& group, bool speaks) {
              bench_all_reduce(*a, group, speaks);
            };
            if (!a->threads_as_ranks) return on_ranks(a->common, a->group, fn);
            spawn(a->common.nproc, [&](ProcessGroup& group) { fn(group, group.rank() == 0); });
            return 0;
          }};
}

}  // namespace

Command bench_command(CLI::App& program) {
  CLI::App* app = program.add_subcommand("bench", "Measure steps and collectives on this machine");
  app->require_subcommand(1);
  app->footer(
      "Examples:\n"
      "  lockstep bench step --nproc 2 --model resnet18\n"
      "  lockstep bench allreduce --nproc 2");
  const std::vector<Command> commands = {step_command(*app), all_reduce_command(*app)};
  return {app, [commands] {
            for (const Command& command : commands) {
              if (command.app->parsed()) return command.run();
            }
            return 2;
          }};
}

}  // namespace lockstep::tools
