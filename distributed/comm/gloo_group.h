// Ranks as processes that talk over TCP, by the Gloo library.
#pragma once

#include "lockstep/distributed/comm/process_group.h"
#include "lockstep/distributed/comm/store.h"

#include <memory>
#include <string>

namespace lockstep {

struct GlooGroupOptions {
  /// This rank's own address, where its peers reach it. Gloo's ports are chosen by the system and
  /// ask for no token.
  std::string host = "127.0.0.1";
  /// How long one operation may take, waiting for the slowest rank included.
  std::chrono::milliseconds timeout{30'000};
  /// How long to wait for the other ranks to connect.
  std::chrono::milliseconds start_timeout{60'000};
  /// After so long in one operation, one of the ranks that wait logs whom for (base/log.h).
  std::chrono::milliseconds stall_warning{10'000};
  /// false: no thread watches, nothing is written down, and who is to blame for a failure is not
  /// found. To measure what it costs (bench/observing_cost).
  bool observed = true;
};

/// Before each collective the ranks compare what they are about to do, by a message to each other
/// one (signature_exchange.h), which takes some tens of microseconds (`lockstep bench allreduce`).
///
/// Collective over `size` ranks that share `store`, each under its own rank
/// (TcpStoreOptions::rank); the group keeps the store alive. `prefix` names the group within the
/// store and must not be used twice. Throws CommError if a rank does not come.
///
/// A thread of the group watches over the ranks (rank_watch.h): a dead rank fails what waits for it
/// within seconds and is named, also where no connection to it is in use.
///
/// Reductions: the same bits on every rank and in every run with as many ranks, but not in rank
/// order; bf16 and f16 are rounded after each of the size - 1 additions of all_reduce
/// (reduce_scatter, and all_reduce of at most 64 bytes, go in rank order, in f32).
std::unique_ptr<ProcessGroup> make_gloo_group(std::shared_ptr<Store> store,
                                              const std::string& prefix, int rank, int size,
                                              const GlooGroupOptions& options = {});

}  // namespace lockstep
