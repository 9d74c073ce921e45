// NonfiniteGuard: what becomes of a step whose gradients are not finite.
#pragma once

#include "lockstep/distributed/data_parallel.h"
#include "lockstep/distributed/nonfinite.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

enum class OnNonfinite {
  kError,   // training ends, with an error on every rank
  kSkip,    // the step is left out on every rank
  kIgnore,  // nobody looks; the next checkpoint or progress line finds that the loss is no number
};

struct NonfiniteOptions {
  OnNonfinite action = OnNonfinite::kError;
  /// The sum over the ranks may make what is not finite of what is: a communication hook that
  /// rounds to fewer bits. Also where there is one rank and so no sum. Reads all gradients.
  bool look_at_all = false;
  int64_t most_in_a_row = 20;  // steps left out, after which it is an error
};

class NonfiniteGuard {
 public:
  /// All outlive this. `watch`, which is to be ddp's DdpOptions::nonfinite, may be null: as
  /// kIgnore.
  NonfiniteGuard(NonfiniteWatch* watch, const NonfiniteOptions& options, const Module& model,
                 DataParallel& ddp);

  /// Before a step's first forward. A step that is left out must not stay in running statistics
  /// either, so those are copied with kSkip.
  void begin_step();
  /// After backward, before the optimizer; the same on every rank. Nothing: the step counts. A
  /// text: it is to be left out, and why; buffers are as before. Throws Error where that is not
  /// wanted, or has happened too often in a row. Collective where gradients are not finite.
  std::optional<std::string> end_step(int64_t step);

  bool skips() const { return watch_ != nullptr && options_.action == OnNonfinite::kSkip; }
  /// Steps left out so far, those before a checkpoint included.
  int64_t skipped() const { return skipped_; }
  void set_skipped(int64_t skipped) { skipped_ = skipped; }

 private:
  NonfiniteWatch* watch_;
  NonfiniteOptions options_;
  DataParallel& ddp_;
  std::vector<Tensor> buffers_, copies_;
  int64_t skipped_ = 0;
  int64_t in_a_row_ = 0;
};

}  // namespace lockstep
