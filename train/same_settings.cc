#include "lockstep/train/same_settings.h"

#include "lockstep/base/error.h"
#include "lockstep/distributed/comm/op_label.h"
#include "lockstep/distributed/comm/rank_texts.h"

namespace lockstep {

void require_same_settings(const std::vector<std::pair<std::string, std::string>>& settings,
                           ProcessGroup& group) {
  const OpLabel label("flags of all ranks");
  std::vector<std::string> lines;
  for (const auto& [name, value] : settings) {
    lines.push_back(str("--", name, " ", value.empty() ? "(not given)" : value));
  }
  const auto d = first_difference(lines, group);
  if (!d) return;
  constexpr size_t kLongest = 200;  // of what a message shows
  throw ArgumentError(
      str("ranks were started with different flags: ", d->on_zero.substr(0, kLongest),
          " on rank 0 and ", d->here.substr(0, kLongest), " on rank ", d->rank,
          "; give every rank the same"));
}

}  // namespace lockstep
