// train_bert pretrain: one rank.
#pragma once

#include "options.h"
#include "text_data.h"

#include "lockstep/distributed/comm/process_group.h"
#include "lockstep/distributed/comm/rank_place.h"

#include <optional>

namespace lockstep::train_bert {

class Pretraining {
 public:
  explicit Pretraining(const PretrainOptions& options) : options_(options) {}

  /// What can be checked before any process starts. Throws as run() would. If there is to be this
  /// process alone, it keeps what it has read.
  void preflight(int world);
  /// Trains; collective over `group`. Throws lockstep::Error.
  void run(ProcessGroup& group, const RankPlace& place);

 private:
  std::vector<RunTrait> traits(const TextData& text, int world) const;

  const PretrainOptions& options_;
  std::optional<TextData> text_;
};

}  // namespace lockstep::train_bert
