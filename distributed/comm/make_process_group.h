// The group of all ranks of this job, as the environment describes it or the program itself. What
// programs call.
#pragma once

#include "lockstep/distributed/comm/process_group.h"
#include "lockstep/distributed/comm/rank_place.h"
#include "lockstep/distributed/comm/rendezvous.h"

#include <string>

namespace lockstep {

struct ProcessGroupOptions {
  /// "auto": under a launcher "nccl" where `device` is a GPU and "gloo" where it is the host,
  /// without one "single". "single" refuses more than one rank. With "nccl" tensors on the GPU go
  /// by NCCL and those on the host by Gloo; each rank has a GPU of its own.
  std::string backend = "auto";
  /// How long to wait for the other ranks to start.
  std::chrono::milliseconds start_timeout{60'000};
  /// How long one operation may take, waiting for the slowest rank included.
  std::chrono::milliseconds timeout{30'000};
  /// After so long in one operation, one of the ranks that wait logs whom for (base/log.h).
  std::chrono::milliseconds stall_warning{10'000};
  /// The network interface for the ranks' data, by name or address; empty: the one by which this
  /// machine reaches rank 0.
  std::string interface = {};
  /// Where the ranks meet: tcp://host:port, file:///path in a folder that all see; empty or env://:
  /// as the environment tells (docs/starting_ranks.md).
  std::string init_method = {};
  /// What the ranks compute on.
  Device device = Device::cpu();
  /// As of NcclGroupOptions: thread blocks that a collective may take from computing; 0: NCCL's own
  /// choice.
  int nccl_max_ctas = 0;
  /// As of NcclGroupOptions: whether the gradients' memory is registered with NCCL.
  bool nccl_register_buffers = false;
};

struct JoinedGroup {
  std::unique_ptr<ProcessGroup> group;
  RankPlace place;
};

/// Blocks until all ranks have come. Throws ArgumentError for a wrong option or environment,
/// CommError if ranks do not come, the port is in use, or the job's token is refused, and for
/// "nccl" UnsupportedError if this program or this machine lacks what it needs. "nccl" makes the
/// GPU with the number of the rank on this machine that of the process (choose_cuda_device).
JoinedGroup join_process_group(const ProcessGroupOptions& options = {});

/// The same without the place.
std::unique_ptr<ProcessGroup> make_process_group(const ProcessGroupOptions& options = {});

/// The same for a program that knows its ranks itself: "auto" is "gloo" or "nccl", or "single" for
/// a world_size of 1. All ranks give the same `token`, the job's secret. For "nccl" the program has
/// chosen the GPU.
///
/// So a program goes on after a CommError: it destroys the failed group and what uses it, gives the
/// ranks that are left (or were started again) new numbers, and calls this with a `master_port`
/// other than that of the group before, which no late rank can take for the new one.
std::unique_ptr<ProcessGroup> make_process_group(const RankInfo& info, const std::string& token,
                                                 const ProcessGroupOptions& options = {});

}  // namespace lockstep
