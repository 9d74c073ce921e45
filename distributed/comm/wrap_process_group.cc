#include "lockstep/distributed/comm/wrap_process_group.h"

#include "lockstep/base/error.h"
#include "lockstep/distributed/comm/canonical_group.h"
#include "lockstep/distributed/comm/emulated_link.h"
#include "lockstep/distributed/comm/round_robin_group.h"

#include <utility>
#include <vector>

namespace lockstep {

std::unique_ptr<ProcessGroup> wrap_process_group(std::unique_ptr<ProcessGroup> group,
                                                 const GroupOptions& options) {
  check(group != nullptr, "wrap_process_group: there is no group");
  check(options.round_robin >= 1 && options.round_robin <= 64,
        "wrap_process_group: wanted round_robin from 1 to 64, got ", options.round_robin);
  std::vector<std::unique_ptr<ProcessGroup>> groups;
  for (int k = 1; k < options.round_robin; ++k) groups.push_back(group->split(0, group->rank()));
  groups.insert(groups.begin(), std::move(group));
  for (auto& one : groups) {
    if (options.link) one = make_emulated_link(std::move(one), *options.link);
    // Within the round robin: outside of it, its worker would issue one operation after the other.
    if (options.canonical) one = make_canonical_group(std::move(one));
  }
  return groups.size() == 1 ? std::move(groups[0]) : make_round_robin_group(std::move(groups));
}

}  // namespace lockstep
