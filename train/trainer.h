// Trainer: the loop that the example trainers share, whatever their batches hold. It drives epochs
// of optimizer steps with gradient accumulation, evaluates after each, tells how it goes, and
// writes checkpoints from which it goes on bit for bit.
#pragma once

#include "lockstep/base/timeline.h"
#include "lockstep/distributed/data_parallel.h"
#include "lockstep/distributed/reduce/comm_hook.h"
#include "lockstep/optim/ema.h"
#include "lockstep/optim/optimizer.h"
#include "lockstep/optim/schedule.h"
#include "lockstep/tensor/captured_step.h"
#include "lockstep/tensor/device_timeline.h"
#include "lockstep/tensor/random.h"
#include "lockstep/train/batch_source.h"
#include "lockstep/train/checkpoint.h"
#include "lockstep/train/evaluate.h"
#include "lockstep/train/meter.h"
#include "lockstep/train/nonfinite_guard.h"
#include "lockstep/train/progress.h"
#include "lockstep/train/run_dir.h"
#include "lockstep/train/run_log.h"
#include "lockstep/train/save_timer.h"
#include "lockstep/train/shares.h"
#include "lockstep/train/step_agreement.h"
#include "lockstep/train/step_log.h"
#include "lockstep/train/step_times.h"

#include <cstdint>
#include <cstdio>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// The parts of a run; all outlive the trainer. Sources yield equally many batches on every rank.
struct TrainerParts {
  Module& model;
  DataParallel& ddp;
  ProcessGroup& group;
  Optimizer& optimizer;
  Schedule schedule;  // factor on the learning rate by optimizer step
  BatchSource& train_data;
  BatchSource& test_data;  // each sample once over all ranks; run with the model in evaluation
  Generator& rng;          // this rank's stream, if anything draws from one
  Timeline& timeline;
  CommHook* comm_hook = nullptr;        // of ddp, if its state belongs to the checkpoint
  NonfiniteWatch* nonfinite = nullptr;  // of ddp; null: nobody looks whether gradients are finite
  Ema* ema = nullptr;                   // updated after each step; evaluations use its averages
  RunDir* run_dir = nullptr;            // rank 0's; null: nothing is written
  std::string step_log_dir = {};        // for StepLog, given on all ranks or on none; empty: none
  std::FILE* console = nullptr;         // null: silent
  /// The signal by which this rank was asked to stop, 0: by none; called between steps. Given on
  /// all ranks or on none.
  std::function<int()> asked_to_stop = nullptr;
  SaveTimer::Now now = std::chrono::steady_clock::now;  // for tests
};

/// By what an evaluation is better than the ones before.
enum class BestBy { kAccuracy, kLoss };

/// How a task calls what an evaluation gives; blanks and dashes become '_' in metrics.jsonl.
struct EvaluationWords {
  std::string accuracy = "test accuracy";
  std::string loss = "test loss";
  std::string counted = "samples";  // what the accuracy is of
  std::string second = "second";    // BatchResult::second
};

struct TrainerOptions {
  int64_t epochs = 1;
  /// Above 0: training ends after this optimizer step, in whatever epoch, and `epochs` counts for
  /// nothing.
  int64_t max_steps = 0;
  int64_t grad_accum_steps = 1;
  /// Samples of a rank in a micro-batch. Told, a run may go on with another number of ranks.
  int64_t batch_size = 0;
  double clip_grad_norm = std::numeric_limits<double>::infinity();  // optim/clip.h
  int64_t log_interval = 10;      // optimizer steps between two progress lines
  int64_t checkpoint_every = 0;   // optimizer steps; 0: after each evaluation only
  double checkpoint_minutes = 0;  // since the last one, by rank 0's clock; 0: that is no reason
  double agree_seconds = kAgreeSeconds;  // step_agreement.h
  int64_t keep_checkpoints = 0;          // of earlier steps, beside the last and the best
  int64_t evaluate_every = 0;            // optimizer steps; 0: after each epoch and at the end only
  bool evaluate_first = false;           // also before the first step
  BestBy best_by = BestBy::kAccuracy;
  EvaluationWords words = {};
  NonfiniteOptions nonfinite = {};
  /// Optimizer steps between two checks that all ranks hold the same parameters, bit for bit
  /// (distributed/replica_check.h); 0: none.
  int64_t check_replicas_every = 0;
  /// On a device: steps whose shapes recur are captured as a graph and replayed
  /// (tensor/captured_step.h). For one process, whose gradients nobody looks at and whose ddp has
  /// no timeline.
  bool capture_steps = false;
  std::vector<RunTrait> traits = {};          // what a checkpoint must have in common with this run
  std::vector<std::string> class_names = {};  // for those who read the checkpoint later
};

struct TrainResult {
  double test_loss = 0;
  double test_accuracy = 0;  // of the last evaluation, as a fraction
  double best_accuracy = 0;
  double best_loss = 0;  // of the least; with BestBy::kLoss
  /// Before the first step, with evaluate_first; none in a run that was resumed.
  std::optional<double> first_loss = std::nullopt;
  Position position;
  int stopped_by = 0;  // the signal that ended training before its time; 0: none
};

class Trainer {
 public:
  Trainer(TrainerParts parts, TrainerOptions options);

  /// Optimizer steps of one epoch and of the whole run. A short last group of micro-batches is a
  /// step of its own.
  int64_t steps_per_epoch() const;
  int64_t total_steps() const;

  /// Collective. Goes on from the checkpoint at `path`, which rank 0 reads for all. Throws on every
  /// rank when it cannot be read or belongs to another kind of run, or to other ranks whose place
  /// these cannot take (sharing.h). Returns what other ranks change, for the console.
  std::string resume(const std::string& path);
  const Position& position() const { return position_; }

  /// Collective. Trains to the end of the last epoch, or to the last step. Throws Error when the
  /// loss is no longer a number, gradients are not finite or the replicas differ, CommError when a
  /// peer is lost, IoError when a file cannot be written.
  ///
  /// Asked to stop on any rank, all ranks end after the same step, with a checkpoint: the one after
  /// that in which the signal came, or within some `agree_seconds` where steps are shorter; after
  /// an evaluation, if it came in one.
  TrainResult run();

  const StepTimes& step_times() const { return times_; }

 private:
  bool finished() const;
  void train_epoch(TrainResult& result);
  bool train_step();  // false: the epoch had no batch left
  /// The passes and the update of a step.
  void host_step(int64_t micro_batches);
  /// The same from memory that stays where it is; captured or replayed where the shapes recur.
  void placed_step(int64_t micro_batches);
  /// Whether this step ends with what ranks ask for.
  bool agreement_due();
  StepRequest wishes() const;
  /// Collective. Ends training between two steps.
  void stop(int signal);
  void load();
  /// Collective. Loads the micro-batches of a step, whose losses are about unlike numbers of items,
  /// and asks the ranks for the number of all items.
  void load_weighed(int64_t micro_batches);
  double share(Shares& shares, int64_t micro_batch);
  /// What the first or the second loss of a micro-batch is multiplied by.
  double factor(int64_t micro_batch, int64_t micro_batches, bool second);
  /// Forward and backward of a micro-batch; the result has no graph any more.
  BatchResult pass(int64_t micro_batch, int64_t micro_batches, DeviceTimeline& spans,
                   const std::function<BatchResult()>& forward);
  void backward(const Variable& loss, bool synchronize);
  void clip();
  /// The optimizer and the moving averages.
  void advance();
  bool evaluation_due() const;
  Evaluation evaluate();
  void evaluate_first(TrainResult& result);
  /// Evaluates and saves, at the end of an epoch or within one.
  void conclude(TrainResult& result);
  void tell(const std::string& where, const Evaluation& test);
  MetricsLog::Fields fields_of(const Evaluation& test) const;
  void log_interval();
  /// Throws Error for a loss that is no longer a number.
  void require_finite(double loss) const;
  Sharing sharing() const;
  /// What each rank has of its own, for these ranks.
  void take_rank_states(const Checkpoint& checkpoint);
  /// Whether training can be there between two steps.
  bool is_reachable(const Position& at) const;
  /// Collective. To `last.safetensors`, and to `best.safetensors` first when `best`.
  void save(bool best);
  /// To `bucket_plan.json`, when it is another one than there.
  void write_bucket_plan();

  TrainerParts parts_;
  TrainerOptions options_;
  Position position_;
  Position kept_until_;  // of the files' lines: as position_, in the steps of those who wrote them
  double best_accuracy_ = -1;
  double best_loss_ = std::numeric_limits<double>::infinity();
  Shares shares_, second_shares_;  // of the two losses in the step
  Meter meter_;
  StepAgreement agreement_;
  SaveTimer save_timer_;
  DeviceTimeline spans_;
  NonfiniteGuard guard_;
  int stopped_by_ = 0;
  bool evaluation_owed_ = false;  // at this position, which is within an epoch
  /// Steps of the same shapes.
  struct Shaped {
    int64_t seen = 0;
    std::optional<CapturedStep> captured;
    std::vector<BatchResult> results;  // by micro-batch; the graph's own, once there is one
  };
  std::map<std::string, Shaped> shaped_;
  int graphs_ = 0;
  StepTimes times_;
  Progress progress_;
  std::optional<RunLog> log_;
  std::optional<StepLog> step_log_;
  BucketPlan written_plan_;
  int64_t interval_begin_ns_ = 0;
  int64_t interval_steps_ = 0;
  int64_t interval_samples_ = 0;  // of this rank
  int64_t interval_tokens_ = 0;   // likewise
};

}  // namespace lockstep
