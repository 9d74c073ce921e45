// A group that is as slow as a network would be, for experiments on one machine.
#pragma once

#include "lockstep/distributed/comm/link_spec.h"
#include "lockstep/distributed/comm/process_group.h"

namespace lockstep {

enum class LinkUse {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kAllToAll,
  kBroadcast,
  kLetter,
  kBarrier
};

/// How long an operation over `bytes` takes `ranks` ranks, without jitter. With W = bytes / rate
/// and L = latency (the alpha-beta model; Thakur, Rabenseifner, Gropp, "Optimization of collective
/// communication operations in MPICH", 2005):
/// - all_reduce, a ring:             2 (N-1)/N W + 2 (N-1) L      bytes: of the tensor
/// - reduce_scatter, a ring:           (N-1)/N W +   (N-1) L      bytes: of `in`
/// - all_gather, a ring:               (N-1)/N W +   (N-1) L      bytes: of `out`
/// - all_to_all, pairwise:             (N-1)/N W +   (N-1) L      bytes: of `in`
/// - broadcast, a binomial tree:  ceil(log2 N) (W + L)            bytes: of the tensor
/// - barrier, dissemination:      ceil(log2 N) L
/// - send, recv:                                W + L
/// Nothing for one rank.
std::chrono::nanoseconds link_time(const LinkSpec& link, LinkUse use, int ranks, int64_t bytes);

/// By what the time of collective `index` (0, 1, ... within the group) is multiplied: 1 to
/// 1 + link.jitter. Letters have no jitter, for not every rank counts them.
double link_jitter(const LinkSpec& link, int64_t index);

/// A group over `inner`, which it owns: the results are those of `inner`, and each operation ends
/// no sooner than the link's time after `inner` began to transfer (after the ranks have met). A
/// faster `inner` is waited out asleep, so that others have the core, but for the last 100
/// microseconds. A slower `inner` shows through: choose a link well below what it does. times()
/// includes the wait. Operations of one group run one after the other, so they share the link;
/// several groups do not share it.
///
/// link.straggler is the rank of `inner` that sleeps for straggler_delay before each collective
/// (not before send and recv). backend() says what it is: "emulated 1 Gbit/s, 50 us over gloo".
/// Parts of a split have such a link each; the straggler stays the same one. Throws ArgumentError
/// for a link that check_link refuses and for a straggler that `inner` does not have.
std::unique_ptr<ProcessGroup> make_emulated_link(std::unique_ptr<ProcessGroup> inner,
                                                 const LinkSpec& link);

}  // namespace lockstep
