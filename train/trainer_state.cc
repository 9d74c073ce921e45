// Trainer: from and to checkpoints.
#include "lockstep/base/error.h"
#include "lockstep/distributed/comm/op_label.h"
#include "lockstep/distributed/reduce/plan_json.h"
#include "lockstep/io/atomic_file.h"
#include "lockstep/io/file.h"
#include "lockstep/train/hook_state.h"
#include "lockstep/train/kept_checkpoints.h"
#include "lockstep/train/rank_zero.h"
#include "lockstep/train/trainer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace lockstep {
namespace {

/// All ranks' values, [world size, count] on every rank.
template <class T>
Tensor gather(ProcessGroup& group, const std::vector<T>& mine) {
  const auto count = static_cast<int64_t>(mine.size());
  Tensor all = Tensor::empty(Shape{group.size(), count}, dtype_of<T>);
  group.all_gather(all, Tensor::from(mine, Shape{count}))->wait();
  return all;
}

/// The same bits as another integer type.
template <class To, class From>
To bits(From value) {
  return std::bit_cast<To>(value);
}

}  // namespace

void Trainer::save(bool best) {
  const OpLabel label("checkpoint");
  ProcessGroup& group = parts_.group;
  Checkpoint checkpoint;
  checkpoint.position = position_;
  checkpoint.best_accuracy = best_accuracy_;
  if (options_.best_by == BestBy::kLoss && std::isfinite(best_loss_)) {
    checkpoint.best_loss = best_loss_;
  }
  checkpoint.evaluation_owed = evaluation_owed_;
  checkpoint.skipped_steps = guard_.skipped();
  if (options_.batch_size > 0) checkpoint.sharing = sharing();
  checkpoint.traits = options_.traits;
  checkpoint.class_names = options_.class_names;
  checkpoint.bucket_plan = to_json(parts_.ddp.plan(), parts_.ddp.param_specs());
  const Generator::State rng = parts_.rng.state();
  checkpoint.rng = gather<int64_t>(group, {bits<int64_t>(rng.seed), bits<int64_t>(rng.next_block)});
  const auto& sums = meter_.sums();
  checkpoint.meter = gather<double>(group, {sums.begin(), sums.end()});
  // On every rank alike, from all ranks' sums, before a run that has diverged replaces a checkpoint
  // of before.
  for (const double sum : checkpoint.meter.to_vector<double>()) require_finite(sum);
  if (parts_.comm_hook != nullptr) {
    checkpoint.comm_hook = gather_hook_state(parts_.comm_hook->state(), group);
  }
  save_timer_.saved();
  if (parts_.run_dir == nullptr) return;
  checkpoint.model = parts_.model.state_dict();
  checkpoint.optimizer = parts_.optimizer.state();
  if (parts_.ema != nullptr) checkpoint.ema = parts_.ema->state();
  // The best first: killed between the two, the run resumes from the older `last`, finds the same
  // best again, and writes it again. The other way round it would be lost.
  if (best) write_checkpoint(parts_.run_dir->best_checkpoint(), checkpoint);
  write_checkpoint(parts_.run_dir->last_checkpoint(), checkpoint);
  if (options_.keep_checkpoints > 0) {
    keep_last_checkpoint(parts_.run_dir->path(), position_.step, options_.keep_checkpoints);
  }
  write_bucket_plan();
}

void Trainer::write_bucket_plan() {
  if (parts_.run_dir == nullptr || parts_.ddp.plan() == written_plan_) return;
  written_plan_ = parts_.ddp.plan();
  write_file_atomically(parts_.run_dir->file("bucket_plan.json"),
                        to_json(written_plan_, parts_.ddp.param_specs()));
}

bool Trainer::is_reachable(const Position& at) const {
  const int64_t batches = parts_.train_data.batches();
  if (at.step < 0 || at.batch < 0 || at.batch > batches) return false;
  if (at.batch % options_.grad_accum_steps != 0 && at.batch != batches) return false;
  const int64_t steps_here = (at.batch + options_.grad_accum_steps - 1) / options_.grad_accum_steps;
  // Divided rather than multiplied, as a damaged epoch may be any number.
  const int64_t before = at.step - steps_here;
  return before >= 0 && before % steps_per_epoch() == 0 && before / steps_per_epoch() == at.epoch;
}

std::string Trainer::resume(const std::string& path) {
  const OpLabel label("resume");
  ProcessGroup& group = parts_.group;
  // One rank reads, so the file need not be on every machine.
  const std::vector<std::byte> bytes = broadcast_from_rank_zero(group, "resume", [&] {
    read_checkpoint_header(path);  // refuses what is none, before it is read as a whole
    const std::vector<uint8_t> contents = read_file(path, std::numeric_limits<uint64_t>::max());
    std::vector<std::byte> copy(contents.size());
    if (!contents.empty()) std::memcpy(copy.data(), contents.data(), contents.size());
    return copy;
  });
  const Checkpoint checkpoint = parse_checkpoint(bytes, path);
  const int64_t ranks = checkpoint.rng.dim(0);
  if (checkpoint.meter.dim(0) != ranks ||
      (checkpoint.sharing && checkpoint.sharing->ranks != ranks)) {
    throw IoError(str(path, ": its parts are of unlike numbers of ranks; is the file damaged?"));
  }
  const bool other_ranks = ranks != group.size();
  if (!other_ranks) {
    check_traits(path, checkpoint.traits, options_.traits);
  } else {
    check_traits(path, without_sharing(checkpoint.traits), without_sharing(options_.traits));
  }
  const Reshared reshared =
      other_ranks
          ? reshare(path, checkpoint.position, checkpoint.sharing.value_or(Sharing{.ranks = ranks}),
                    sharing(), options_.max_steps > 0)
          : Reshared{.position = checkpoint.position};
  check(!other_ranks || checkpoint.comm_hook.empty(), "resume ", path, ": wanted ", ranks,
        " ranks as in the checkpoint, got ", group.size(),
        "; its communication hook keeps a state of each rank, which others cannot take over");
  const Position& at = reshared.position;
  if (!is_reachable(at)) {
    throw IoError(str(path, ": step ", at.step, ", epoch ", at.epoch, ", batch ", at.batch, " of ",
                      parts_.train_data.batches(),
                      " is no position of this run; is the data another, or the file damaged?"));
  }
  parts_.ddp.adopt_plan(plan_from_json(checkpoint.bucket_plan, parts_.ddp.param_specs(), path));
  parts_.model.load_state_dict(checkpoint.model);
  parts_.optimizer.load_state(checkpoint.optimizer);
  if (parts_.ema != nullptr) parts_.ema->load_state(checkpoint.ema);
  if (parts_.comm_hook != nullptr) {
    parts_.comm_hook->load_state(hook_state_of(group.rank(), checkpoint.comm_hook));
  }
  take_rank_states(checkpoint);
  best_accuracy_ = checkpoint.best_accuracy;
  best_loss_ = checkpoint.best_loss.value_or(std::numeric_limits<double>::infinity());
  position_ = at;
  kept_until_ = checkpoint.position;
  evaluation_owed_ = checkpoint.evaluation_owed;
  guard_.set_skipped(checkpoint.skipped_steps);
  parts_.ddp.set_steps(at.step);
  return reshared.notice;
}

Sharing Trainer::sharing() const {
  return {.ranks = parts_.group.size(),
          .batch_size = options_.batch_size,
          .accumulated = options_.grad_accum_steps,
          .batches = parts_.train_data.batches()};
}

void Trainer::take_rank_states(const Checkpoint& checkpoint) {
  const auto rank = static_cast<int64_t>(parts_.group.rank());
  const int64_t ranks = checkpoint.rng.dim(0);
  const int64_t* rng = checkpoint.rng.data<int64_t>();
  if (rank < ranks) {
    parts_.rng.set_state({bits<uint64_t>(rng[2 * rank]), bits<uint64_t>(rng[2 * rank + 1])});
  } else {
    // A rank that is new has a stream of its own; it may be one that was here before, so no number
    // that it can have drawn then is drawn again.
    uint64_t furthest = 0;
    for (int64_t r = 0; r < ranks; ++r) {
      furthest = std::max(furthest, bits<uint64_t>(rng[2 * r + 1]));
    }
    parts_.rng.set_state({parts_.rng.state().seed, furthest});
  }
  const double* sums = checkpoint.meter.data<double>();
  if (ranks == parts_.group.size()) {
    meter_.set_sums({sums[3 * rank], sums[3 * rank + 1], sums[3 * rank + 2]});
    return;
  }
  // What counts is their sum over the ranks.
  std::array<double, 3> all{};
  for (int64_t k = 0; rank == 0 && k < 3 * ranks; ++k) all[static_cast<size_t>(k % 3)] += sums[k];
  meter_.set_sums(all);
}

}  // namespace lockstep
