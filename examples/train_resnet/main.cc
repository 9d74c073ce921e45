// train_resnet: trains a ResNet, data-parallel. --help tells how.
#include "evaluate.h"
#include "options.h"
#include "run.h"

#include "lockstep/base/error.h"
#include "lockstep/distributed/comm/launcher.h"
#include "lockstep/distributed/comm/make_process_group.h"
#include "lockstep/train/same_settings.h"
#include "lockstep/train/standard_output.h"

#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <utility>

namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;

/// After Ctrl-C.
void tell_how_to_go_on(const lockstep::train_resnet::Options& options) {
  if (options.output_dir.empty()) return;
  const std::string last = options.output_dir + "/last.safetensors";
  if (std::filesystem::exists(last)) {
    std::fprintf(stderr, "train_resnet: %s is kept; the same command with --resume auto goes on\n",
                 last.c_str());
  }
}

int run_main(int argc, char** argv) {
  using namespace lockstep;
  train_resnet::Options options;
  if (const auto code = train_resnet::parse(argc, argv, options)) return *code;
  if (options.command == train_resnet::Command::kPredict) {
    return predict(options.prediction, "train_resnet");
  }
  const bool evaluating = options.command == train_resnet::Command::kEvaluate;
  if (!launched()) {
    // A mistake is told once, before there are processes.
    if (evaluating) {
      train_resnet::preflight_evaluation(options);
    } else {
      train_resnet::preflight(options, options.nproc);
    }
    if (options.nproc > 1) {
      LaunchOptions launch;
      launch.nproc = options.nproc;
      launch.log_dir = options.output_dir;
      const int code = launch_self(launch, options.arguments);
      if (code == 128 + SIGINT) tell_how_to_go_on(options);
      return code;
    }
  }
  auto [ranks, place] = join_process_group(process_group_options(options.group));
  require_same_settings(train_resnet::shared_settings(options), *ranks);
  const auto group = wrapped(std::move(ranks), options.group);
  check(options.nproc == 1 || options.nproc == group->size(), "--nproc ", options.nproc,
        ": another launcher has started ", group->size(), " already; leave --nproc out");
  if (evaluating) {
    train_resnet::evaluate_checkpoint(options, *group, place);
  } else {
    train_resnet::run(options, *group, place);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const int code = run_main(argc, argv);
    lockstep::check_standard_output();
    return code;
  } catch (const lockstep::ArgumentError& error) {
    std::fprintf(stderr, "train_resnet: %s\n", error.what());
    return kUsage;
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "train_resnet: out of memory; lower --batch-size\n");
    return kFailed;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train_resnet: %s\n", error.what());
    return kFailed;
  }
}
