#include "lockstep/train/trainer.h"

#include "lockstep/autograd/ops/elementwise.h"
#include "lockstep/base/error.h"
#include "lockstep/distributed/replica_check.h"
#include "lockstep/optim/clip.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace lockstep {

Trainer::Trainer(TrainerParts parts, TrainerOptions options)
    : parts_(std::move(parts)), options_(std::move(options)), progress_(parts_.console) {
  check(options_.epochs >= 1, "Trainer: wanted at least 1 epoch, got ", options_.epochs);
  check(options_.grad_accum_steps >= 1, "Trainer: wanted grad_accum_steps >= 1, got ",
        options_.grad_accum_steps);
  check(options_.log_interval >= 1, "Trainer: wanted log_interval >= 1, got ",
        options_.log_interval);
  check(options_.checkpoint_every >= 0, "Trainer: wanted checkpoint_every >= 0, got ",
        options_.checkpoint_every);
  check(options_.check_replicas_every >= 0, "Trainer: wanted check_replicas_every >= 0, got ",
        options_.check_replicas_every);
  check(parts_.ddp.ignored().empty(),
        "Trainer: a checkpoint holds rank 0's model, so no parameter can be each rank's own; got "
        "DdpOptions::ignore with ",
        parts_.ddp.ignored().empty() ? "" : parts_.ddp.ignored()[0]);
  check(parts_.train_data.batches() >= 1, "Trainer: wanted at least one batch in an epoch, got 0");
}

int64_t Trainer::steps_per_epoch() const {
  return steps_in_epoch(parts_.train_data.batches(), options_.grad_accum_steps);
}

TrainResult Trainer::run() {
  if (parts_.run_dir != nullptr) log_.emplace(*parts_.run_dir, position_);
  if (!parts_.step_log_dir.empty()) {
    step_log_.emplace(StepLog::Options{.directory = parts_.step_log_dir,
                                       .rank = parts_.group.rank(),
                                       .world_size = parts_.group.size(),
                                       .start = position_.step,
                                       .clock = measure_clock_offset(parts_.group)});
  }
  TrainResult result;
  if (position_.epoch >= options_.epochs) {
    progress_.say(str("nothing left to train: ", position_.epoch, " epochs are done"));
    const Meter::Result test = evaluate();
    result.test_loss = test.loss;
    result.test_accuracy = test.accuracy;
  }
  while (position_.epoch < options_.epochs) {
    train_epoch();
    end_epoch(result);
  }
  write_bucket_plan();
  if (step_log_) step_log_->end(measure_clock_offset(parts_.group));
  result.best_accuracy = best_accuracy_;
  result.position = position_;
  return result;
}

void Trainer::train_epoch() {
  parts_.model.train();
  parts_.train_data.begin_epoch(position_.epoch, position_.batch);
  interval_begin_ns_ = Timeline::now_ns();
  interval_steps_ = interval_samples_ = 0;
  while (train_step()) {
    // The decisions below depend on the position alone, so all ranks take them alike.
    const bool last = position_.batch == parts_.train_data.batches();
    const int64_t every = options_.check_replicas_every;
    if (every > 0 && position_.step % every == 0) {
      require_equal_replicas(parts_.ddp.parameters(), parts_.group,
                             str("after step ", position_.step));
    }
    if (position_.step % options_.log_interval == 0 || last) log_interval();
    if (options_.checkpoint_every > 0 && position_.step % options_.checkpoint_every == 0) {
      save(/*best=*/false);
    }
  }
}

bool Trainer::train_step() {
  const int64_t left = parts_.train_data.batches() - position_.batch;
  if (left == 0) return false;
  // A group that the epoch's end cuts short is averaged over the micro-batches it has.
  const int64_t micro_batches = std::min(options_.grad_accum_steps, left);
  Timeline* timeline = &parts_.timeline;
  timeline->begin_step(position_.step);
  {
    const ScopedSpan span(timeline, Activity::kOptimizer);
    parts_.optimizer.zero_grad();
  }
  for (int64_t i = 0; i < micro_batches; ++i) {
    std::optional<Batch> batch;
    {
      const ScopedSpan span(timeline, Activity::kDataWait);
      batch = parts_.train_data.next();
    }
    check(batch.has_value(), "Trainer: the loader ended ", micro_batches - i,
          " batches before the end of the epoch");
    BatchResult result;
    {
      const ScopedSpan span(timeline, Activity::kForward);
      result = parts_.train_batch(*batch);
      if (micro_batches > 1) {
        meter_.add(result.loss.data().item(), result.correct, result.samples);
        result.loss = scale(result.loss, 1.0 / static_cast<double>(micro_batches));
      }
    }
    {
      const ScopedSpan span(timeline, Activity::kBackward);
      backward(result.loss, /*synchronize=*/i + 1 == micro_batches);
      if (micro_batches == 1) meter_.add(result.loss.data().item(), result.correct, result.samples);
      result.loss = Variable();  // the graph goes with it, which takes its time
    }
    interval_samples_ += result.samples;
    ++position_.batch;
  }
  {
    const ScopedSpan span(timeline, Activity::kOptimizer);
    if (std::isfinite(options_.clip_grad_norm)) {
      clip_grad_norm(parts_.ddp.parameters(), options_.clip_grad_norm);
    }
    parts_.optimizer.set_lr_factor(parts_.schedule(position_.step));
    parts_.optimizer.step();
    if (parts_.ema != nullptr) parts_.ema->update();
  }
  ++position_.step;
  ++interval_steps_;
  const StepSummary summary = timeline->end_step();
  times_.add(summary);
  if (step_log_) step_log_->add(summary, timeline->last_step());
  return true;
}

void Trainer::backward(const Variable& loss, bool synchronize) {
  if (synchronize) return loss.backward();
  const NoSync accumulate_only = parts_.ddp.no_sync();
  loss.backward();
}

void Trainer::require_finite(double loss) const {
  if (std::isfinite(loss)) return;
  throw Error(str("training diverged: the loss is ", loss, " at step ", position_.step,
                  "; lower --lr, or warm up for longer"));
}

void Trainer::log_interval() {
  const Meter::Result train = meter_.reduce(parts_.group);
  meter_.reset();
  require_finite(train.loss);
  const double seconds = static_cast<double>(Timeline::now_ns() - interval_begin_ns_) * 1e-9;
  const auto steps = static_cast<size_t>(interval_steps_);
  const double per_second =
      static_cast<double>(interval_samples_ * parts_.group.size()) / std::max(seconds, 1e-9);
  ProgressState state{.epoch = position_.epoch,
                      .epochs = options_.epochs,
                      .step = position_.step,
                      .steps = total_steps(),
                      .loss = train.loss,
                      .accuracy = train.accuracy,
                      .samples_per_second = per_second};
  state.seconds_left =
      seconds / static_cast<double>(steps) * static_cast<double>(state.steps - state.step);
  const bool alone = parts_.group.size() == 1;
  progress_.update(format_progress(state, alone ? "" : times_.comm_phrase(steps)));
  if (log_) {
    log_->log_interval(position_.epoch, position_.step,
                       {{"epochs_done", static_cast<double>(position_.step) /
                                            static_cast<double>(steps_per_epoch())},
                        {"loss", train.loss},
                        {"accuracy", train.accuracy},
                        {"lr", parts_.optimizer.lr()},
                        {"samples_per_second", per_second},
                        {"step_ms", times_.mean(StepTimes::kWall, steps)},
                        {"forward_ms", times_.mean(StepTimes::kForward, steps)},
                        {"backward_ms", times_.mean(StepTimes::kBackward, steps)},
                        {"optimizer_ms", times_.mean(StepTimes::kOptimizer, steps)},
                        {"data_wait_ms", times_.mean(StepTimes::kDataWait, steps)},
                        {"comm_hidden_ms", times_.mean(StepTimes::kHidden, steps)},
                        {"comm_exposed_ms", times_.mean(StepTimes::kExposed, steps)},
                        {"comm_bytes", times_.mean(StepTimes::kBytes, steps)}});
  }
  if (step_log_) {
    step_log_->end_interval(std::max(position_.step / options_.log_interval, position_.epoch),
                            parts_.timeline.kept());
  }
  interval_begin_ns_ = Timeline::now_ns();
  interval_steps_ = interval_samples_ = 0;
}

Meter::Result Trainer::evaluate() {
  // Where steps do not bring them along, running statistics differ between the ranks until now;
  // rank 0's count, as they are what a checkpoint holds.
  parts_.ddp.broadcast_buffers();
  std::optional<EmaWeights> averaged;
  if (parts_.ema != nullptr) averaged.emplace(*parts_.ema);
  return lockstep::evaluate(parts_.model, parts_.test_data, parts_.test_batch, parts_.group);
}

void Trainer::end_epoch(TrainResult& result) {
  const Meter::Result test = evaluate();
  const int64_t epoch = position_.epoch;
  progress_.say(str("epoch ", epoch + 1, "/", options_.epochs, ": test accuracy ",
                    format_percent(test.accuracy), ", test loss ", test.loss, ", ", test.samples,
                    " samples"));
  if (log_) {
    log_->log_epoch(epoch, position_.step,
                    {{"test_loss", test.loss},
                     {"test_accuracy", test.accuracy},
                     {"test_samples", static_cast<double>(test.samples)}});
  }
  position_.epoch = epoch + 1;
  position_.batch = 0;
  result.test_loss = test.loss;
  result.test_accuracy = test.accuracy;
  const bool best = test.accuracy > best_accuracy_;
  if (best) best_accuracy_ = test.accuracy;
  save(best);
}

}  // namespace lockstep
