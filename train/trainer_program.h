// What the programs that train have in common: their ranks and their exit codes.
#pragma once

#include "lockstep/distributed/comm/process_group.h"
#include "lockstep/distributed/comm/rank_place.h"
#include "lockstep/train/trainer_flags.h"

#include <functional>
#include <set>
#include <string>

namespace lockstep {

/// What one command of a program does.
struct RankWork {
  /// Before there are processes, so that a mistake is told once: what can be checked, for so many
  /// ranks. Throws as `run` would.
  std::function<void(int world)> preflight;
  /// One rank's work, collective over the group.
  std::function<void(ProcessGroup& group, const RankPlace& place)> run;
  /// As shared_settings() takes them, what is not in trainer_flags.h.
  std::set<std::string> own_settings = {}, path_settings = {};
};

/// Starts --nproc processes, or joins those that a launcher started, and does the work. Returns the
/// exit code.
int run_ranks(const char* program, const TrainerFlags& flags, const RankWork& work);

/// main() of a program: the exit code of `body`, or 1 or 2 (a wrong argument) after one line that
/// says what it threw.
int program_main(const char* program, const std::function<int()>& body);

}  // namespace lockstep
