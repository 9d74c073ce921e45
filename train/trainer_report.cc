// Trainer: what it tells of a run.
#include "lockstep/base/error.h"
#include "lockstep/distributed/comm/op_label.h"
#include "lockstep/train/trainer.h"

#include <algorithm>
#include <cmath>

namespace lockstep {
namespace {

/// "masked tokens" -> "masked_tokens"
std::string key(std::string words) {
  std::replace_if(
      words.begin(), words.end(), [](char c) { return c == ' ' || c == '-'; }, '_');
  return words;
}

}  // namespace

void Trainer::require_finite(double loss) const {
  if (std::isfinite(loss)) return;
  throw Error(str("training diverged: the loss is ", loss, " at step ", position_.step,
                  "; lower --lr, or warm up for longer"));
}

void Trainer::log_interval() {
  const OpLabel label("metrics");
  const Meter::Result train = meter_.reduce(parts_.group);
  meter_.reset();
  if (train.counted > 0) require_finite(train.loss);
  const double seconds =
      std::max(static_cast<double>(Timeline::now_ns() - interval_begin_ns_) * 1e-9, 1e-9);
  const auto steps = static_cast<size_t>(interval_steps_);
  const auto per_second = [&](int64_t of_this_rank) {
    return static_cast<double>(of_this_rank * parts_.group.size()) / seconds;
  };
  ProgressState state{.epoch = position_.epoch,
                      .epochs = options_.epochs,
                      .step = position_.step,
                      .steps = total_steps(),
                      .loss = train.loss,
                      .accuracy = train.accuracy,
                      .samples_per_second = per_second(interval_samples_)};
  state.seconds_left =
      seconds / static_cast<double>(steps) * static_cast<double>(state.steps - state.step);
  const bool alone = parts_.group.size() == 1;
  progress_.update(format_progress(state, alone ? "" : times_.comm_phrase(steps)));
  if (log_) {
    MetricsLog::Fields fields = {{"epochs_done", static_cast<double>(position_.step) /
                                                     static_cast<double>(steps_per_epoch())},
                                 {"loss", train.loss},
                                 {"accuracy", train.accuracy},
                                 {"lr", parts_.optimizer.lr()},
                                 {"samples_per_second", state.samples_per_second},
                                 {"step_ms", times_.mean(StepTimes::kWall, steps)},
                                 {"forward_ms", times_.mean(StepTimes::kForward, steps)},
                                 {"backward_ms", times_.mean(StepTimes::kBackward, steps)},
                                 {"optimizer_ms", times_.mean(StepTimes::kOptimizer, steps)},
                                 {"data_wait_ms", times_.mean(StepTimes::kDataWait, steps)},
                                 {"comm_hidden_ms", times_.mean(StepTimes::kHidden, steps)},
                                 {"comm_exposed_ms", times_.mean(StepTimes::kExposed, steps)},
                                 {"comm_bytes", times_.mean(StepTimes::kBytes, steps)}};
    if (options_.capture_steps) {
      fields.emplace_back("graph_ms", times_.mean(StepTimes::kGraph, steps));
    }
    if (guard_.skips()) fields.emplace_back("skipped_steps", guard_.skipped());
    if (interval_tokens_ > 0)
      fields.emplace_back("tokens_per_second", per_second(interval_tokens_));
    log_->log_interval(position_.epoch, position_.step, fields);
  }
  if (step_log_) {
    step_log_->end_interval(std::max(position_.step / options_.log_interval, position_.epoch),
                            parts_.timeline.kept());
  }
  interval_begin_ns_ = Timeline::now_ns();
  interval_steps_ = interval_samples_ = interval_tokens_ = 0;
}

bool Trainer::evaluation_due() const {
  if (position_.batch == parts_.train_data.batches()) return false;  // the epoch's own comes now
  return position_.step == options_.max_steps ||
         (options_.evaluate_every > 0 && position_.step % options_.evaluate_every == 0);
}

Evaluation Trainer::evaluate() {
  const OpLabel label("evaluation");
  // Where steps do not bring them along, running statistics differ between the ranks until now;
  // rank 0's count, as they are what a checkpoint holds.
  parts_.ddp.broadcast_buffers();
  std::optional<EmaWeights> averaged;
  if (parts_.ema != nullptr) averaged.emplace(*parts_.ema);
  return lockstep::evaluate(parts_.model, parts_.test_data, parts_.group);
}

void Trainer::tell(const std::string& where, const Evaluation& test) {
  const EvaluationWords& words = options_.words;
  std::string second;
  if (test.second.counted > 0) {
    second = str(", ", words.second, " accuracy ", format_percent(test.second.accuracy));
  }
  progress_.say(str(where, ": ", words.accuracy, " ", format_percent(test.accuracy), ", ",
                    words.loss, " ", test.loss, ", ", test.counted, " ", words.counted, second));
}

MetricsLog::Fields Trainer::fields_of(const Evaluation& test) const {
  MetricsLog::Fields fields = {
      {"test_loss", test.loss},
      {"test_accuracy", test.accuracy},
      {"test_" + key(options_.words.counted), static_cast<double>(test.counted)}};
  if (test.second.counted > 0) {
    const std::string second = "test_" + key(options_.words.second);
    fields.emplace_back(second + "_loss", test.second.loss);
    fields.emplace_back(second + "_accuracy", test.second.accuracy);
  }
  return fields;
}

void Trainer::evaluate_first(TrainResult& result) {
  const Evaluation test = evaluate();
  tell("before training", test);
  if (log_) log_->log_evaluation(0, 0, 0, fields_of(test));
  result.first_loss = test.loss;
}

void Trainer::conclude(TrainResult& result) {
  const Evaluation test = evaluate();
  evaluation_owed_ = false;
  const int64_t epoch = position_.epoch;
  if (position_.batch == parts_.train_data.batches()) {
    tell(str("epoch ", epoch + 1, "/", options_.epochs), test);
    if (log_) log_->log_epoch(epoch, position_.step, fields_of(test));
    position_.epoch = epoch + 1;
    position_.batch = 0;
  } else {
    tell(str("step ", position_.step, "/", total_steps()), test);
    const double epochs_done =
        static_cast<double>(position_.step) / static_cast<double>(steps_per_epoch());
    if (log_) log_->log_evaluation(epoch, position_.step, epochs_done, fields_of(test));
  }
  result.test_loss = test.loss;
  result.test_accuracy = test.accuracy;
  const bool more_right = test.accuracy > best_accuracy_, less_loss = test.loss < best_loss_;
  if (more_right) best_accuracy_ = test.accuracy;
  if (less_loss) best_loss_ = test.loss;
  save(options_.best_by == BestBy::kAccuracy ? more_right : less_loss);
  // Whoever asked in the meantime is not kept waiting for another step.
  if (parts_.asked_to_stop == nullptr || finished()) return;
  stopped_by_ = static_cast<int>(agreement_.exchange(wishes()).stop_signal);
}

}  // namespace lockstep
