// One place that puts wrappers round a group in the right order.
#pragma once

#include "lockstep/distributed/comm/link_spec.h"
#include "lockstep/distributed/comm/process_group.h"

#include <optional>

namespace lockstep {

struct GroupOptions {
  bool canonical = false;             // canonical_group.h
  std::optional<LinkSpec> link = {};  // emulated_link.h
  int round_robin = 1;                // round_robin_group.h: over so many groups of the same ranks
};

/// `group` with what `options` ask for; itself where that is nothing. Collective: every rank passes
/// the same options. round_robin groups are `group` and splits of it; each has a link of its own,
/// and on it its canonical reductions. Throws ArgumentError for wrong options.
std::unique_ptr<ProcessGroup> wrap_process_group(std::unique_ptr<ProcessGroup> group,
                                                 const GroupOptions& options);

}  // namespace lockstep
