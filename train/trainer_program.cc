#include "lockstep/train/trainer_program.h"

#include "lockstep/base/error.h"
#include "lockstep/distributed/comm/launcher.h"
#include "lockstep/train/same_settings.h"
#include "lockstep/train/standard_output.h"
#include "lockstep/train/stop_signal.h"

#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <new>

namespace lockstep {
namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

/// After Ctrl-C.
void tell_how_to_go_on(const char* program, const std::string& output_dir) {
  if (output_dir.empty()) return;
  const std::string last = output_dir + "/last.safetensors";
  if (std::filesystem::exists(last)) {
    std::fprintf(stderr, "%s: %s is kept; the same command with --resume auto goes on\n", program,
                 last.c_str());
  }
}

}  // namespace

int run_ranks(const char* program, const TrainerFlags& flags, const RankWork& work) {
  if (!launched()) {
    work.preflight(flags.nproc);
    if (flags.nproc > 1) {
      LaunchOptions launch;
      launch.nproc = flags.nproc;
      launch.log_dir = flags.output_dir;
      launch.stop_grace = milliseconds(flags.grace);
      launch.max_restarts = flags.max_restarts;
      const int code = launch_self(launch, flags.arguments);
      if (code == 128 + SIGINT) tell_how_to_go_on(program, flags.output_dir);
      return code;
    }
  }
  ProcessGroupOptions options = process_group_options(flags.group);
  options.device = named_device(flags.device);
  auto [ranks, place] = join_process_group(options);
  require_same_settings(shared_settings(flags, work.own_settings, work.path_settings), *ranks);
  const auto group = wrapped(std::move(ranks), flags.group);
  check(flags.nproc == 1 || flags.nproc == group->size(), "--nproc ", flags.nproc,
        ": another launcher has started ", group->size(), " already; leave --nproc out");
  try {
    work.run(*group, place);
  } catch (const StoppedBySignal& stopped) {
    if (group->rank() == 0) std::fprintf(stderr, "%s: %s\n", program, stopped.message.c_str());
    return 128 + stopped.signal;
  } catch (const std::exception& error) {
    group->abort(error.what());  // so that the others can tell why
    throw;
  }
  return 0;
}

int program_main(const char* program, const std::function<int()>& body) {
  try {
    const int code = body();
    check_standard_output();
    return code;
  } catch (const ArgumentError& error) {
    std::fprintf(stderr, "%s: %s\n", program, error.what());
    return kUsage;
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "%s: out of memory; lower --batch-size\n", program);
    return kFailed;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", program, error.what());
    return kFailed;
  }
}

}  // namespace lockstep
