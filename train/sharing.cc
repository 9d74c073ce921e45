#include "lockstep/train/sharing.h"

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

/// What to give so that a step of `now` takes as many samples as one of `before`.
std::string remedy(const Sharing& before, const Sharing& now) {
  const int64_t samples = before.samples_in_step();
  std::string ways;
  if (samples % now.global_batch() == 0) {
    ways += str("--grad-accum-steps ", samples / now.global_batch(), " or ");
  }
  const int64_t others = now.ranks * now.accumulated;
  if (samples % others == 0) ways += str("--batch-size ", samples / others, " or ");
  return str("give ", ways, before.ranks, before.ranks == 1 ? " rank" : " ranks",
             ", or go on from the end of an epoch");
}

/// A damaged file may say anything; products of what it says must not overflow.
bool is_sane(const Position& at, const Sharing& before, const Sharing& now) {
  constexpr double kMost = 4e18;
  const auto product = [](int64_t a, int64_t b) {
    return static_cast<double>(a) * static_cast<double>(b);
  };
  return at.epoch >= 0 && at.batch >= 0 && before.ranks >= 1 && before.accumulated >= 1 &&
         (before.batches == 0 || at.batch <= before.batches) &&
         product(before.ranks, before.batch_size) * static_cast<double>(before.accumulated) <
             kMost &&
         product(before.ranks, before.batch_size) * static_cast<double>(at.batch) < kMost &&
         product(at.epoch, now.batches + 1) < kMost;
}

}  // namespace

std::string describe(const Sharing& sharing) {
  return str(sharing.samples_in_step(), " = ", sharing.ranks,
             sharing.ranks == 1 ? " rank x " : " ranks x ", sharing.batch_size,
             sharing.accumulated > 1 ? str(" x ", sharing.accumulated) : "");
}

Reshared reshare(const std::string& checkpoint, const Position& at, const Sharing& before,
                 const Sharing& now, bool steps_count) {
  check(before.batch_size > 0 && now.batch_size > 0, "resume ", checkpoint, ": wanted ",
        before.ranks, " ranks as in the checkpoint, got ", now.ranks,
        "; how its samples were shared out is not known");
  if (!is_sane(at, before, now)) {
    throw IoError(str(checkpoint, ": step ", at.step, ", epoch ", at.epoch, ", batch ", at.batch,
                      " of ", before.batches, " is no position of a run; is the file damaged?"));
  }
  const bool same_steps = before.samples_in_step() == now.samples_in_step();
  // An epoch's end, before its evaluation, is one of both.
  const bool ended = before.batches > 0 && at.batch == before.batches;
  const bool within = at.batch != 0 && !ended;
  check(!within || same_steps, "resume ", checkpoint, ": wanted a global batch of ",
        describe(before), " as in the checkpoint, which lies within an epoch, got ", describe(now),
        "; ", remedy(before, now));
  if (now.batches == 0) return {};

  Position to{.step = at.step, .epoch = at.epoch, .batch = 0};
  if (ended) to.batch = now.batches;
  if (within) to.batch = at.batch * before.global_batch() / now.global_batch();
  to.step = at.epoch * steps_in_epoch(now.batches, now.accumulated) +
            steps_in_epoch(to.batch, now.accumulated);
  check(!steps_count || to.step == at.step, "resume ", checkpoint, ": wanted ", at.step,
        " steps to lie behind it, as in the checkpoint, got ", to.step, " for ranks that share as ",
        describe(now), " and not as ", describe(before),
        ", and --max-steps counts them; use the same --nproc and --batch-size");
  std::string notice = str("global batch ", describe(now), " instead of ", describe(before));
  if (to.step != at.step) notice += str("; step ", at.step, " counts as step ", to.step);
  return {.position = to, .notice = notice};
}

}  // namespace lockstep
