// Ranks with a GPU each, by NCCL.
#pragma once

#include "lockstep/distributed/comm/nccl/nccl_api.h"
#include "lockstep/distributed/comm/process_group.h"
#include "lockstep/distributed/comm/store.h"

#include <memory>
#include <string>

namespace lockstep {

struct NcclGroupOptions {
  /// How long one operation may take from when its stream has come to it, waiting for the slowest
  /// rank included.
  std::chrono::milliseconds timeout{30'000};
  /// How long to wait for the other ranks to come, and for NCCL to connect them.
  std::chrono::milliseconds start_timeout{60'000};
  /// After so long in one operation, one of the ranks that wait logs whom for (base/log.h).
  std::chrono::milliseconds stall_warning{10'000};
  /// Thread blocks of the GPU that a collective may take from computing; 0: NCCL's own choice.
  int max_ctas = 0;
  /// Whether memory that is reduced again and again, such as the gradients', is registered with
  /// NCCL (nccl_buffers.h); memory that was is let go at the group's next operation or its end.
  /// Where this NCCL cannot, before 2.19, rank 0 logs a warning. All ranks say the same.
  bool register_buffers = false;
  /// NCCL_HOSTID of this process, if it is set: see comm/nccl/gpu_claim.h.
  std::string host_id = {};
};

/// Tensors are on Device::cuda() only; make_paired_group takes both kinds.
///
/// Streams: an operation is enqueued on a stream of the group's own, of high priority, behind what
/// the calling thread's current stream holds at the call. Work::wait makes the current stream wait
/// for it and returns at once (that of a barrier blocks the host); Work::wait_host blocks. A work
/// holds its tensors until its stream is past it, also when nobody holds the work.
///
/// Failure: a thread of the group asks NCCL for errors, measures the time of the operation that the
/// stream is in, and hears by way of the store of ranks that have died, left or failed
/// (rank_watch.h). On the first of these it ends what is on the stream, and every work that had not
/// ended, and every later call, throws CommError with the reason. What the streams compute from the
/// results of such an operation is garbage until then. Unlike Gloo, NCCL does not compare what the
/// ranks call: a difference in size or order is found when the time is up.
///
/// The destructor waits for what is in flight, unless an exception unwinds.
///
/// Collective over `size` ranks that share `store`, each under its own rank
/// (TcpStoreOptions::rank); the group keeps the store alive. `prefix` names the group within the
/// store and must not be used twice. `api` outlives the group. Throws CommError if a rank does not
/// come or NCCL fails, ArgumentError if two ranks have the same GPU.
std::unique_ptr<ProcessGroup> make_nccl_group(comm::NcclApi& api, std::shared_ptr<Store> store,
                                              const std::string& prefix, int rank, int size,
                                              const NcclGroupOptions& options = {});

}  // namespace lockstep
