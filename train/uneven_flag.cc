#include "lockstep/train/uneven_flag.h"

#include <CLI/CLI.hpp>

namespace lockstep {

void add_uneven_flag(CLI::App& app, UnevenFlag& flag, bool joins) {
  std::vector<std::string> names{"drop", "pad", "error"};
  std::string words =
      "What becomes of samples that do not fill an epoch's last batch of all processes: drop "
      "leaves them out, pad adds samples from the epoch's beginning, error refuses to start";
  if (joins) {
    names.insert(names.begin() + 2, "join");
    words += ", join trains on them, their mean being over as many as there are";
  }
  app.add_option("--uneven", flag.uneven, words)->check(CLI::IsMember(names));
}

LastBatch last_batch_of(const UnevenFlag& flag) {
  if (flag.uneven == "pad") return LastBatch::kPad;
  if (flag.uneven == "join") return LastBatch::kKeep;
  if (flag.uneven == "error") return LastBatch::kError;
  return LastBatch::kDrop;
}

std::vector<RunTrait> uneven_traits(const UnevenFlag& flag) {
  if (flag.uneven == "drop") return {};
  return {{"--uneven", flag.uneven}};
}

}  // namespace lockstep
