// The command-line flags about the ranks: where they meet, and what lies between the trainer and
// the network.
#pragma once

#include "lockstep/distributed/comm/make_process_group.h"
#include "lockstep/distributed/comm/wrap_process_group.h"
#include "lockstep/train/checkpoint.h"

#include <memory>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace lockstep {

struct GroupFlags {
  std::string init_method;  // empty: by the environment
  std::string interface;    // empty: by the route to rank 0
  bool canonical = false;
  std::string emulated_link;  // empty: the link as it is
  int round_robin = 1;
  bool nccl_register_buffers = false;
  // Seconds, as of ProcessGroupOptions.
  double start_timeout = 60;
  double timeout = 30;
  double stall_warning = 10;
};

void add_group_flags(CLI::App& app, GroupFlags& flags);

ProcessGroupOptions process_group_options(const GroupFlags& flags);

/// After parsing: what is wrong with them on this device, for a usage error; empty: nothing.
std::string wrong_group_flags(const GroupFlags& flags, Device device);

/// Throws ArgumentError for what no group of `world` ranks can be.
void check_group_flags(const GroupFlags& flags, int world);

GroupOptions group_options(const GroupFlags& flags);

/// `group` with what the flags ask for. Collective.
std::unique_ptr<ProcessGroup> wrapped(std::unique_ptr<ProcessGroup> group, const GroupFlags& flags);

/// What decides the order in which the ranks' gradients are added.
std::vector<RunTrait> group_traits(const GroupFlags& flags);

}  // namespace lockstep
