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

void Trainer::resume(const std::string& path) {
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
  check_traits(path, checkpoint.traits, options_.traits);
  if (checkpoint.rng.dim(0) != group.size() || checkpoint.meter.dim(0) != group.size()) {
    throw ArgumentError(str("resume ", path, ": wanted ", checkpoint.rng.dim(0),
                            " ranks as in the checkpoint, got ", group.size()));
  }
  const Position& at = checkpoint.position;
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
  const int64_t* rng = checkpoint.rng.data<int64_t>() + 2 * group.rank();
  parts_.rng.set_state({bits<uint64_t>(rng[0]), bits<uint64_t>(rng[1])});
  const double* sums = checkpoint.meter.data<double>() + 3 * group.rank();
  meter_.set_sums({sums[0], sums[1], sums[2]});
  best_accuracy_ = checkpoint.best_accuracy;
  best_loss_ = checkpoint.best_loss.value_or(std::numeric_limits<double>::infinity());
  position_ = at;
  evaluation_owed_ = checkpoint.evaluation_owed;
  parts_.ddp.set_steps(at.step);
}

}  // namespace lockstep
