// What it costs that a run tells about itself, end to end: training by two processes over Gloo with
// all that is on by default against training with none of it.
//
// On: the thread that watches over the ranks and its heartbeats, the ring log of operations, the
// look at gradients that are not finite, the timeline, the lines of steps.rankN.jsonl, and the
// agreement of each step about stopping and saving. What a bucket's label costs cannot be turned
// off; it is measured by itself and added.
//
// The watch wakes once a second, so steps cannot take turns one by one: stretches of some seconds
// do, each with a group and a model of its own, on and off in pairs and in random order. A stretch
// gives the mean of its steps, a pair a ratio. Printed are the median of the ratios and the upper
// 95 % bound of it, which follows from their order alone, whatever their distribution.
//
// Once of the time that a step takes, and once of the processor time of all threads of all
// processes. Where every core computes the two cost the same, and the second does not feel what
// else a machine does: it tells some tenths of a per cent where the first tells some per cent.

#include "lockstep/bench/workload.h"
#include "lockstep/distributed/comm/gloo_group.h"
#include "lockstep/distributed/comm/job_token.h"
#include "lockstep/distributed/comm/launcher.h"
#include "lockstep/distributed/comm/meeting_point.h"
#include "lockstep/distributed/comm/rank_env.h"
#include "lockstep/distributed/comm/rendezvous.h"
#include "lockstep/distributed/nonfinite.h"
#include "lockstep/distributed/reduce/bucket_label.h"
#include "lockstep/train/command_line.h"
#include "lockstep/train/replica.h"
#include "lockstep/train/step_agreement.h"
#include "lockstep/train/step_log.h"
#include "lockstep/train/step_times.h"

#include <omp.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace lockstep;

constexpr int64_t kLogInterval = 10;  // as the trainers'
constexpr double kLimit = 1;          // per cent
constexpr int kPairsForAClaim = 30;

/// One way to train: with all of it or with none.
class Contender {
 public:
  Contender(const bench::Workload& workload, ProcessGroup& group, bool observed,
            const std::string& directory)
      : group_(group),
        batch_(bench::make_batch(workload, group.rank())),
        replica_(make_loss_model(workload.task), group, options(workload, observed)) {
    if (!observed) return;
    agreement_.emplace(group);
    step_log_.emplace(StepLog::Options{.directory = directory,
                                       .rank = group.rank(),
                                       .world_size = group.size(),
                                       .clock = measure_clock_offset(group)});
  }

  void step() {
    if (!agreement_) return replica_.step([this](int64_t) { return batch_; });
    timeline_.begin_step(step_);
    if (agreement_->due()) agreement_->start({});
    replica_.zero_grad();
    replica_.backward(batch_, /*last=*/true);
    if (watch_.found(replica_.parameters(), /*thorough=*/false)) throw Error("not finite");
    replica_.update();
    const StepSummary summary = timeline_.end_step();
    times_.add(summary);
    step_log_->add(summary, timeline_.last_step());
    if (++step_ % kLogInterval == 0) {
      step_log_->end_interval(step_ / kLogInterval, timeline_.kept());
    }
    agreement_->finish();
  }

  size_t buckets() { return replica_.ddp().plan().buckets.size(); }

 private:
  ReplicaOptions options(const bench::Workload& workload, bool observed) {
    ReplicaOptions options;
    options.optimizer = [&workload](std::vector<NamedParameter> parameters) {
      return bench::make_optimizer(workload, std::move(parameters));
    };
    if (observed) {
      options.ddp.timeline = &timeline_;
      options.ddp.nonfinite = [this](const GradBucket& bucket) { watch_.note(bucket); };
    }
    return options;
  }

  ProcessGroup& group_;
  Timeline timeline_;
  NonfiniteWatch watch_;
  StepTimes times_;
  Batch batch_;
  Replica replica_;
  std::optional<StepAgreement> agreement_;
  std::optional<StepLog> step_log_;
  int64_t step_ = 0;
};

struct Flags {
  bench::Workload workload;
  int threads = 1;
  int pairs = 111;
  double seconds = 1.5;
};

/// Of a step, on average.
struct Cost {
  double wall_ms = 0;
  double processor_ms = 0;  // of all processes together
};

struct Stretch {
  Cost cost;
  size_t buckets = 0;
};

double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

/// Trains for about so long as the flags say, in as many steps as `steps` holds; 0: finds it.
Stretch train(const Flags& flags, ProcessGroup& group, bool observed, const std::string& directory,
              int64_t& steps) {
  constexpr int kWarm = 5;
  Contender contender(flags.workload, group, observed, directory);
  const auto cost_of = [&](int64_t n) {
    group.barrier()->wait();
    const int64_t begin = Timeline::now_ns();
    const double processor_begin = processor_seconds();
    for (int64_t i = 0; i < n; ++i) contender.step();
    const Tensor processor = Tensor::from<double>({processor_seconds() - processor_begin}, {1});
    group.all_reduce(processor)->wait();
    const double per_step = 1e3 / static_cast<double>(n);
    return Cost{.wall_ms = static_cast<double>(Timeline::now_ns() - begin) * 1e-9 * per_step,
                .processor_ms = *processor.data<double>() * per_step};
  };
  const Cost warm = cost_of(kWarm);
  if (steps == 0) {
    const Tensor wanted = Tensor::from<int64_t>(
        {std::max<int64_t>(1, std::llround(flags.seconds * 1e3 / warm.wall_ms))}, {1});
    group.broadcast(wanted, 0)->wait();
    steps = *wanted.data<int64_t>();
  }
  return {cost_of(steps), contender.buckets()};
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

/// Of some ratios.
struct Claim {
  double middle, bound;  // per cent more; of the bound with 95 % confidence at most
};

Claim claim_of(std::vector<double> ratios) {
  std::sort(ratios.begin(), ratios.end());
  const auto n = static_cast<double>(ratios.size());
  const auto at = static_cast<size_t>(std::ceil(n / 2 + 1.645 * std::sqrt(n) / 2));
  return {100 * (median(ratios) - 1), 100 * (ratios[std::min(at, ratios.size() - 1)] - 1)};
}

const char* verdict(const Claim& claim, size_t pairs) {
  return pairs < kPairsForAClaim ? "too few pairs to tell"
         : claim.bound <= kLimit ? "at most 1 %"
         : claim.middle > kLimit ? "more than 1 %"
                                 : "not shown to be at most 1 %: too noisy";
}

/// Milliseconds of making and setting the label of a bucket of `parameters` parameters.
double label_ms(size_t parameters) {
  GradBucket bucket;
  for (size_t i = 0; i < parameters; ++i) bucket.params.push_back({"layer1.0.bn1.weight", {}});
  constexpr int kCalls = 20'000;
  size_t letters = 0;
  const int64_t begin = Timeline::now_ns();
  for (int i = 0; i < kCalls; ++i) {
    bucket.index = i;
    const OpLabel label(bucket_label(bucket));
    letters += OpLabel::current().view().size();
  }
  const auto took = static_cast<double>(Timeline::now_ns() - begin);
  return letters == 0 ? 0 : took / kCalls * 1e-6;
}

std::shared_ptr<Store> meet() {
  const Environment env = process_environment();
  const auto rank = rank_from_env(env);
  check(rank.has_value(), "observing_cost: wanted RANK and WORLD_SIZE, got none");
  const MeetingPoint at = meeting_point(*rank, env, "");
  return join_store({.rank = rank->rank,
                     .world_size = rank->world_size,
                     .master_addr = at.host,
                     .master_port = at.port},
                    job_token(rank->job, env), std::chrono::seconds(60));
}

int run(const Flags& flags) {
  omp_set_num_threads(flags.threads);
  const auto rank = rank_from_env();
  const std::shared_ptr<Store> store = meet();
  const auto directory =
      std::filesystem::temp_directory_path() / str("lockstep_observing_cost.", ::getpid());
  std::filesystem::create_directory(directory);
  std::mt19937 dice(1);  // the same on all ranks
  std::vector<double> wall, processor, off_ms;
  int64_t steps = 0;
  size_t buckets = 1;
  for (int pair = -1; pair < flags.pairs; ++pair) {  // one to warm up, and to find the steps
    const bool on_first = dice() % 2 == 0;
    Cost cost[2];
    for (const bool observed : {on_first, !on_first}) {
      const auto group = make_gloo_group(store, str("pair", pair, observed ? "/on" : "/off"),
                                         rank->rank, rank->world_size, {.observed = observed});
      const Stretch stretch = train(flags, *group, observed, directory, steps);
      cost[observed ? 1 : 0] = stretch.cost;
      buckets = stretch.buckets;
      group->barrier()->wait();
    }
    if (pair < 0) continue;
    wall.push_back(cost[1].wall_ms / cost[0].wall_ms);
    processor.push_back(cost[1].processor_ms / cost[0].processor_ms);
    off_ms.push_back(cost[0].wall_ms);
    if (rank->rank == 0) std::fprintf(stderr, "\rpair %d/%d", pair + 1, flags.pairs);
  }
  std::filesystem::remove_all(directory);
  if (rank->rank != 0) return 0;

  const double labels = 100 * static_cast<double>(buckets) * label_ms(3) / median(off_ms);
  std::printf("\n%s, batch %d, %d processes x %d thread(s); %lld steps of %.2f ms in a stretch\n\n",
              flags.workload.task.model.c_str(), static_cast<int>(flags.workload.batch),
              rank->world_size, flags.threads, static_cast<long long>(steps), median(off_ms));
  std::printf("| on against off, %zu pairs | median | upper 95 %% bound | |\n|---|---|---|---|\n",
              wall.size());
  for (const auto& [what, ratios] :
       {std::pair{"a step's time", &wall}, {"processor time", &processor}}) {
    Claim claim = claim_of(*ratios);
    claim.middle += labels;
    claim.bound += labels;
    std::printf("| %s, %.3f %% of it labels | %+.2f %% | %+.2f %% | %s |\n", what, labels,
                claim.middle, claim.bound, verdict(claim, ratios->size()));
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  flags.workload.task.model = "resnet8";
  int nproc = 2;
  CLI::App app{"What it costs that a run tells about itself", "observing_cost"};
  app.footer(
      "Examples: observing_cost --model resnet8\n"
      "          observing_cost --model bert-mini --batch 4");
  app.add_option("--model", flags.workload.task.model, "resnet8, resnet18, bert-mini, ...");
  app.add_option("--size", flags.workload.task.images.image_size, "height and width of images");
  app.add_option("--batch", flags.workload.batch, "images or sequences of a process in a step");
  app.add_option("--nproc", nproc, "processes");
  app.add_option("--threads", flags.threads, "OpenMP threads of each");
  app.add_option("--pairs", flags.pairs, "stretches with and without; at least 30 for a claim")
      ->check(within(1, 1e6, "a number from 1 to 10^6"));
  app.add_option("--seconds", flags.seconds, "of a stretch; the watch wakes once a second")
      ->check(within(0.001, 1e4, "a number of seconds from 0.001 to 10^4"));
  const std::vector<std::string> arguments = normalize_flags(argc, argv);
  if (const auto code = parse_command_line(app, arguments)) return *code;
  try {
    if (!launched()) return launch_self({.nproc = nproc}, {argv + 1, argv + argc});
    return run(flags);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "observing_cost: %s\n", error.what());
    return 1;
  }
}
