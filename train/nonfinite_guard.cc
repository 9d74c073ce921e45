#include "lockstep/train/nonfinite_guard.h"

#include "lockstep/base/error.h"
#include "lockstep/tensor/ops/copy.h"

namespace lockstep {

NonfiniteGuard::NonfiniteGuard(NonfiniteWatch* watch, const NonfiniteOptions& options,
                               const Module& model, DataParallel& ddp)
    : watch_(options.action == OnNonfinite::kIgnore ? nullptr : watch),
      options_(options),
      ddp_(ddp) {
  check(options_.most_in_a_row >= 1, "NonfiniteGuard: wanted most_in_a_row >= 1, got ",
        options_.most_in_a_row);
  if (!skips()) return;
  for (const NamedBuffer& named : model.named_buffers()) {
    buffers_.push_back(named.buffer);
    copies_.push_back(ops::clone(named.buffer));
  }
}

void NonfiniteGuard::begin_step() {
  for (size_t i = 0; i < buffers_.size(); ++i) ops::copy(buffers_[i], copies_[i]);
}

std::optional<std::string> NonfiniteGuard::end_step(int64_t step) {
  if (watch_ == nullptr) return std::nullopt;
  if (!watch_->found(ddp_.parameters(), options_.look_at_all)) {
    in_a_row_ = 0;
    return std::nullopt;
  }
  const std::string what = describe(watch_->first(ddp_.parameters(), ddp_.group()));
  if (!skips()) {
    throw Error(
        str("training diverged: not finite at step ", step, ": ", what,
            "; lower --lr or warm up for longer; --on-nonfinite skip leaves such steps out"));
  }
  ++skipped_;
  if (++in_a_row_ >= options_.most_in_a_row) {
    throw Error(str("not finite at step ", step, ": ", what, "; so were the ", in_a_row_ - 1,
                    " steps before, which were left out: training has diverged; lower --lr or warm "
                    "up for longer"));
  }
  for (size_t i = 0; i < buffers_.size(); ++i) ops::copy(copies_[i], buffers_[i]);
  return str("step ", step, " is left out, as it is not finite: ", what, " (", skipped_,
             " so far)");
}

}  // namespace lockstep
