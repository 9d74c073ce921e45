#include "lockstep/distributed/uneven.h"

#include "lockstep/base/error.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

constexpr std::array<std::pair<Uneven, const char*>, 4> kNames{{{Uneven::kPad, "pad"},
                                                                {Uneven::kDrop, "drop"},
                                                                {Uneven::kJoin, "join"},
                                                                {Uneven::kError, "error"}}};

std::string listed(const std::vector<int64_t>& counts) {
  std::string text;
  for (size_t r = 0; r < counts.size(); ++r) text += str(r > 0 ? ", " : "", counts[r]);
  return text;
}

}  // namespace

const char* name_of(Uneven uneven) {
  return std::find_if(kNames.begin(), kNames.end(),
                      [=](const auto& e) { return e.first == uneven; })
      ->second;
}

Uneven uneven_named(const std::string& name) {
  for (const auto& [value, known] : kNames) {
    if (name == known) return value;
  }
  throw ArgumentError(str("uneven inputs: wanted pad, drop, join or error, got ", name));
}

int64_t steps_of_rank(int64_t batches, Uneven uneven, ProcessGroup& group) {
  const Tensor all = Tensor::empty({group.size()}, DType::kI64);
  group.all_gather(all, Tensor::from<int64_t>({batches}, {1}))->wait();
  const std::vector<int64_t> counts = all.to_vector<int64_t>();
  const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
  check(*least >= 0, "uneven inputs: wanted at least 0 batches on each rank, got ", listed(counts),
        " on ranks 0 to ", group.size() - 1);
  switch (uneven) {
    case Uneven::kDrop:
      return *least;
    case Uneven::kJoin:
      return batches;
    case Uneven::kPad:
      check(*least > 0 || *most == 0, "uneven inputs: pad: rank ", least - counts.begin(),
            " has no batch to repeat; the ranks have ", listed(counts), "; use drop or join");
      return *most;
    case Uneven::kError:
      check(*least == *most,
            "uneven inputs: the ranks have unequal numbers of batches: ", listed(counts),
            "; use pad, drop or join, or give each rank as many");
  }
  return batches;
}

}  // namespace lockstep
