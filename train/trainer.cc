#include "lockstep/train/trainer.h"

#include "lockstep/autograd/ops/elementwise.h"
#include "lockstep/base/error.h"
#include "lockstep/base/failpoint.h"
#include "lockstep/distributed/replica_check.h"
#include "lockstep/distributed/shadow_backward.h"
#include "lockstep/optim/clip.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace lockstep {
namespace {

void require_count(const char* name, int64_t value, int64_t least) {
  check(value >= least, "Trainer: wanted ", name, " >= ", least, ", got ", value);
}

Variable times(const Variable& loss, double factor) {
  return factor == 1 ? loss : scale(loss, factor);
}

}  // namespace

Trainer::Trainer(TrainerParts parts, TrainerOptions options)
    : parts_(std::move(parts)),
      options_(std::move(options)),
      agreement_(parts_.group, options_.agree_seconds),
      save_timer_(options_.checkpoint_minutes, parts_.now),
      spans_(&parts_.timeline, parts_.ddp.parameters()[0].parameter.device()),
      guard_(parts_.nonfinite, options_.nonfinite, parts_.model, parts_.ddp),
      progress_(parts_.console) {
  require_count("epochs", options_.epochs, 1);
  require_count("max_steps", options_.max_steps, 0);
  require_count("grad_accum_steps", options_.grad_accum_steps, 1);
  require_count("log_interval", options_.log_interval, 1);
  require_count("checkpoint_every", options_.checkpoint_every, 0);
  require_count("keep_checkpoints", options_.keep_checkpoints, 0);
  require_count("evaluate_every", options_.evaluate_every, 0);
  require_count("check_replicas_every", options_.check_replicas_every, 0);
  check(parts_.ddp.ignored().empty(),
        "Trainer: a checkpoint holds rank 0's model, so no parameter can be each rank's own; got "
        "DdpOptions::ignore with ",
        parts_.ddp.ignored().empty() ? "" : parts_.ddp.ignored()[0]);
  check(!options_.capture_steps ||
            (parts_.group.size() == 1 && options_.nonfinite.action == OnNonfinite::kIgnore),
        "Trainer: capture_steps is for one process, and for steps whose gradients nobody looks at");
  check(parts_.train_data.batches() >= 1, "Trainer: wanted at least one batch in an epoch, got 0");
  if (options_.max_steps > 0) {
    options_.epochs = (options_.max_steps - 1) / steps_per_epoch() + 1;
  }
}

int64_t Trainer::steps_per_epoch() const {
  return steps_in_epoch(parts_.train_data.batches(), options_.grad_accum_steps);
}

int64_t Trainer::total_steps() const {
  return options_.max_steps > 0 ? options_.max_steps : steps_per_epoch() * options_.epochs;
}

bool Trainer::finished() const {
  if (position_.epoch >= options_.epochs) return true;
  // The last step of an epoch is followed by its evaluation, before which a checkpoint may lie.
  return options_.max_steps > 0 && position_.step >= options_.max_steps &&
         position_.batch != parts_.train_data.batches();
}

TrainResult Trainer::run() {
  if (parts_.run_dir != nullptr) log_.emplace(*parts_.run_dir, kept_until_);
  if (!parts_.step_log_dir.empty()) {
    step_log_.emplace(StepLog::Options{.directory = parts_.step_log_dir,
                                       .rank = parts_.group.rank(),
                                       .world_size = parts_.group.size(),
                                       .start = position_.step,
                                       .clock = measure_clock_offset(parts_.group)});
  }
  TrainResult result;
  save_timer_.saved();
  if (evaluation_owed_) {
    conclude(result);
  } else if (finished()) {
    progress_.say(options_.max_steps > 0
                      ? str("nothing left to train: ", position_.step, " steps are done")
                      : str("nothing left to train: ", position_.epoch, " epochs are done"));
    const Meter::Result test = evaluate();
    result.test_loss = test.loss;
    result.test_accuracy = test.accuracy;
  } else if (options_.evaluate_first && position_ == Position{}) {
    evaluate_first(result);
  }
  while (!finished() && stopped_by_ == 0) {
    train_epoch(result);
    if (position_.batch == parts_.train_data.batches() && stopped_by_ == 0) conclude(result);
  }
  write_bucket_plan();
  if (step_log_) step_log_->end(measure_clock_offset(parts_.group));
  result.best_accuracy = best_accuracy_;
  result.best_loss = best_loss_;
  result.position = position_;
  result.stopped_by = stopped_by_;
  // Together: a launcher takes the first rank that goes for the cause, and one that is lost in the
  // last moment is missed by all.
  parts_.group.barrier()->wait();
  return result;
}

void Trainer::train_epoch(TrainResult& result) {
  parts_.model.train();
  parts_.train_data.begin_epoch(position_.epoch, position_.batch);
  interval_begin_ns_ = Timeline::now_ns();
  interval_steps_ = interval_samples_ = interval_tokens_ = 0;
  while (!finished() && stopped_by_ == 0 && train_step()) {
    // The decisions below depend on the position alone, so all ranks take them alike.
    const bool last =
        position_.batch == parts_.train_data.batches() || position_.step == options_.max_steps;
    const int64_t every = options_.check_replicas_every;
    if (every > 0 && position_.step % every == 0) {
      require_equal_replicas(parts_.ddp.parameters(), parts_.group,
                             str("after step ", position_.step));
    }
    if (position_.step % options_.log_interval == 0 || last) log_interval();
    const StepRequest asked = agreement_.finish();
    if (asked.stop_signal != 0) {
      stop(static_cast<int>(asked.stop_signal));
    } else if (evaluation_due()) {
      const int64_t begin_ns = Timeline::now_ns();
      conclude(result);
      interval_begin_ns_ += Timeline::now_ns() - begin_ns;  // it is no part of training
    } else if (asked.save != 0 ||
               (options_.checkpoint_every > 0 && position_.step % options_.checkpoint_every == 0)) {
      save(/*best=*/false);
    }
  }
}

void Trainer::load() {
  const ScopedSpan span(&parts_.timeline, Activity::kDataWait);
  check(parts_.train_data.load(), "Trainer: the data ended before the end of the epoch, after ",
        position_.batch, " of ", parts_.train_data.batches(), " batches");
}

void Trainer::load_weighed(int64_t micro_batches) {
  shares_.clear();
  second_shares_.clear();
  for (int64_t i = 0; i < micro_batches; ++i) {
    load();
    shares_.add(parts_.train_data.weight());
    second_shares_.add(parts_.train_data.second_weight());
  }
  const bool together = parts_.ddp.communicates();
  shares_.begin(parts_.group, together);
  if (parts_.train_data.weighs_second()) second_shares_.begin(parts_.group, together);
}

double Trainer::share(Shares& shares, int64_t micro_batch) {
  if (!parts_.ddp.communicates()) return shares.of(micro_batch);
  const ScopedSpan span(&parts_.timeline, Activity::kCommWait);
  return shares.of(micro_batch);
}

bool Trainer::train_step() {
  const int64_t left = parts_.train_data.batches() - position_.batch;
  if (left == 0) return false;
  // A group that the epoch's end cuts short is averaged over the micro-batches it has.
  const int64_t micro_batches = std::min(options_.grad_accum_steps, left);
  Timeline* timeline = &parts_.timeline;
  timeline->begin_step(position_.step);
  if (agreement_due()) agreement_.start(wishes());
  options_.capture_steps ? placed_step(micro_batches) : host_step(micro_batches);
  ++position_.step;
  ++interval_steps_;
  const StepSummary summary = timeline->end_step();
  times_.add(summary);
  if (step_log_) step_log_->add(summary, timeline->last_step());
  return true;
}

void Trainer::host_step(int64_t micro_batches) {
  {
    const DeviceTimeline::Span span(spans_, Activity::kOptimizer);
    parts_.optimizer.zero_grad();
    guard_.begin_step();
  }
  std::optional<Meter> meter_before;
  if (guard_.skips()) meter_before = meter_;
  const bool weighs = parts_.train_data.weighs();
  if (weighs) load_weighed(micro_batches);
  for (int64_t i = 0; i < micro_batches; ++i) {
    if (!weighs) load();
    const BatchResult result =
        pass(i, micro_batches, spans_, [this] { return parts_.train_data.run(); });
    if (result.counted > 0) meter_.add(result.loss.data(), result.correct, result.counted);
    interval_samples_ += result.samples;
    interval_tokens_ += result.tokens;
    ++position_.batch;
  }
  const DeviceTimeline::Span span(spans_, Activity::kOptimizer);
  if (const auto why = guard_.end_step(position_.step + 1)) {
    progress_.say(*why);
    meter_ = *std::move(meter_before);  // its losses may be no numbers either
  } else {
    clip();
    advance();
  }
}

double Trainer::factor(int64_t micro_batch, int64_t micro_batches, bool second) {
  if (parts_.train_data.weighs() && (!second || parts_.train_data.weighs_second())) {
    return share(second ? second_shares_ : shares_, micro_batch);
  }
  return 1.0 / static_cast<double>(micro_batches);
}

BatchResult Trainer::pass(int64_t micro_batch, int64_t micro_batches, DeviceTimeline& spans,
                          const std::function<BatchResult()>& forward) {
  BatchResult result;
  Variable loss;
  {
    const DeviceTimeline::Span span(spans, Activity::kForward);
    failpoint("trainer.forward");
    result = forward();
    if (result.loss.defined()) {
      loss = times(result.loss, factor(micro_batch, micro_batches, /*second=*/false));
    }
    if (result.second.loss.defined()) {
      loss = loss + times(result.second.loss, factor(micro_batch, micro_batches, true));
    }
  }
  const DeviceTimeline::Span span(spans, Activity::kBackward);
  failpoint("trainer.backward");
  backward(loss, /*synchronize=*/micro_batch + 1 == micro_batches);
  // The graph goes, which takes its time.
  loss = result.second.loss = Variable();
  if (result.loss.defined()) result.loss = Variable(result.loss.data());
  return result;
}

void Trainer::clip() {
  if (std::isfinite(options_.clip_grad_norm)) {
    clip_grads(parts_.ddp.parameters(), options_.clip_grad_norm);
  }
}

void Trainer::advance() {
  parts_.optimizer.set_lr_factor(parts_.schedule(position_.step));
  parts_.optimizer.step();
  if (parts_.ema != nullptr) parts_.ema->update();
}

void Trainer::backward(const Variable& loss, bool synchronize) {
  if (!loss.defined()) {  // this rank's part of the batch is empty
    if (synchronize) shadow_backward(parts_.ddp);
    return;
  }
  if (synchronize) return loss.backward();
  const NoSync accumulate_only = parts_.ddp.no_sync();
  loss.backward();
}

}  // namespace lockstep
