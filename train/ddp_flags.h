// The command-line flags of data-parallel training, which all trainers have.
#pragma once

#include "lockstep/distributed/data_parallel.h"
#include "lockstep/distributed/reduce/comm_hook.h"
#include "lockstep/train/checkpoint.h"

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace lockstep {

struct DdpFlags {
  std::string mode = "overlapped";
  double bucket_cap_mb = 25;
  std::optional<double> first_bucket_cap_mb;  // not given: 1, but no more than the others'
  std::optional<double> last_bucket_cap_mb;
  std::vector<double> bucket_caps_mb;
  std::string bucket_plan;  // a file; empty: buckets are planned by the caps
  bool find_unused_parameters = false;
  bool static_graph = false;
  bool broadcast_buffers = true;
  std::string comm_hook;  // as parse_comm_hook() takes it; empty: none
};

void add_ddp_flags(CLI::App& app, DdpFlags& flags);

/// Whether they ask for certain buckets.
bool has_caps(const DdpFlags& flags);

/// What is wrong with the flags together, for a usage error; null: nothing.
const char* wrong_ddp_flags(const DdpFlags& flags);

/// All but the communication hook, which wants a group.
DdpOptions ddp_options(const DdpFlags& flags, Timeline* timeline);
/// Null: none.
std::shared_ptr<CommHook> comm_hook(const DdpFlags& flags);

/// What decides how gradients are added up, and in which order. A checkpoint's own plan holds when
/// a run goes on, so that it goes on bit for bit; flags that ask for another one are refused rather
/// than passed over in silence.
std::vector<RunTrait> ddp_traits(const DdpFlags& flags);

/// The plan in `file`. Throws IoError.
BucketPlan read_bucket_plan(const std::string& file, std::span<const ParamSpec> params);

/// Collective: the ranks keep to the plan in `file`, which rank 0 reads for all.
void adopt_bucket_plan(const std::string& file, DataParallel& ddp);

}  // namespace lockstep
