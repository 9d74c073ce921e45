#include "lockstep/train/uneven_flag.h"

#include <CLI/CLI.hpp>

namespace lockstep {

void add_uneven_flag(CLI::App& app, UnevenFlag& flag) {
  app.add_option(
         "--uneven", flag.uneven,
         "What becomes of samples that do not fill an epoch's last batch of all processes: "
         "drop leaves them out, pad adds samples from the epoch's beginning, join trains on "
         "them, their mean being over as many as there are, error refuses to start")
      ->check(CLI::IsMember({"drop", "pad", "join", "error"}));
}

LastBatch last_batch_of(const UnevenFlag& flag) {
  if (flag.uneven == "pad") return LastBatch::kPad;
  if (flag.uneven == "join") return LastBatch::kKeep;
  if (flag.uneven == "error") return LastBatch::kError;
  return LastBatch::kDrop;
}

bool joins(const UnevenFlag& flag) { return last_batch_of(flag) == LastBatch::kKeep; }

std::vector<RunTrait> uneven_traits(const UnevenFlag& flag) {
  if (flag.uneven == "drop") return {};
  return {{"--uneven", flag.uneven}};
}

}  // namespace lockstep
