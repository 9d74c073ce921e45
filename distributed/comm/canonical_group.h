// Reductions whose bits depend on the inputs and on the ranks' order alone.
#pragma once

#include "lockstep/distributed/comm/process_group.h"

namespace lockstep {

/// A group over `inner`, which it owns. all_reduce and reduce_scatter exchange the parts, add them
/// in rank order (bf16 and f16 in f32, rounded once) and hand the sums round: the result for an
/// element depends neither on the backend nor on where in a tensor it lies, so that gradients have
/// the same bits whatever the buckets are. As many bytes go over the wire as in a ring, and 32 more
/// for each pair of ranks, by which they compare their calls. What it costs: two passes over memory
/// to pack the parts and to add them up.
///
/// The other operations are handed on as they are. A worker thread of its own issues everything, so
/// `inner` must not be used otherwise. Work::times() is from the beginning of the first to the end
/// of the last transfer of `inner`. An error of `inner` ends both; so does abort().
std::unique_ptr<ProcessGroup> make_canonical_group(std::unique_ptr<ProcessGroup> inner);

}  // namespace lockstep
