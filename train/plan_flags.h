// --cudnn-benchmark: cuDNN's plans are timed against each other; --cudnn-plans: where the choices
// are kept.
#pragma once

#include "lockstep/distributed/comm/process_group.h"
#include "lockstep/tensor/plan_book.h"

#include <cstdint>
#include <string>

namespace CLI {
class App;
}

namespace lockstep {

struct PlanFlags {
  bool benchmark = false;
  std::string file = {};  // empty: none
};

void add_plan_flags(CLI::App& app, PlanFlags& flags);

/// After parsing: what is wrong with them on this device, for a usage error; empty: nothing.
std::string wrong_plan_flags(const PlanFlags& flags, Device device);

/// Before there are ranks: throws IoError for a file that is damaged, is missing where nothing is
/// timed that could go there, or cannot be written where something is.
void check_plan_file(const PlanFlags& flags);

/// The process's plans, from now on as the flags say. Each rank times for itself, and rank 0's
/// choices are those of the file; see time_plans() for why the ranks' need not be the same.
class KeptPlans {
 public:
  /// Collective; the device is in use. Rank 0 reads the file, if it is there, and all take what it
  /// says, each if the file is of the same cuDNN and kind of GPU as its own; otherwise a warning
  /// says so. Throws as check_plan_file().
  KeptPlans(const PlanFlags& flags, ProcessGroup& group);
  /// Writes what is new. A file that cannot be written is a warning.
  ~KeptPlans();
  KeptPlans(const KeptPlans&) = delete;
  KeptPlans& operator=(const KeptPlans&) = delete;

  /// To be called now and then, such as at each batch: writes what is new once nothing has been
  /// found since the last call, so that a run that is killed finds its plans again.
  void look();
  /// A line for the console: how many were timed; empty: none.
  std::string summary() const;

 private:
  void write();

  const PlanFlags& flags_;
  const bool writes_;
  const int64_t noted_before_;
  int64_t seen_, written_;  // of what was noted
};

}  // namespace lockstep
