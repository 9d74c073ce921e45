// TrainingRun: all of a training run that does not depend on what is trained. A program opens its
// data, and then calls, on every rank alike:
//
//   TrainingRun run("train_resnet", flags, group, place);
//   run.open();                       // the output directory, and what to go on from
//   ... makes its model ...
//   run.init_weights("--init-weights", [&] { ... });  // if it has any to begin with
//   run.wrap(model);
//   run.train({.train_data = ..., .test_data = ...});
#pragma once

#include "lockstep/distributed/data_parallel.h"
#include "lockstep/distributed/faults/faulty_rank.h"
#include "lockstep/train/trainer.h"
#include "lockstep/train/trainer_flags.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace lockstep {

/// What a program trains, beside its model.
struct TrainingTask {
  BatchSource& train_data;
  BatchSource& test_data;
  Generator& rng;                     // as TrainerParts
  std::string description;            // "resnet18", for the console
  std::string data;                   // "digits, 1438 training and 359 test images", likewise
  std::vector<RunTrait> traits = {};  // all of them
  std::vector<std::string> class_names = {};
  BestBy best_by = BestBy::kAccuracy;
  EvaluationWords words = {};
  bool evaluate_first = false;
};

class TrainingRun {
 public:
  /// Of one rank; all arguments outlive it. Sets the number of threads.
  TrainingRun(const char* program, const TrainerFlags& flags, ProcessGroup& group,
              const RankPlace& place);

  bool is_rank_zero() const { return group_.rank() == 0; }
  /// Where the model is, and where its batches have to be, from wrap() on.
  Device device() const { return device_; }
  /// Whose samples this rank reads in training: its own, but for a fault.
  int data_rank() const { return faults_.data_rank(); }
  /// On rank 0's console.
  void say(const std::string& line) { progress_.say(line); }

  /// Collective. The output directory, and the checkpoint to go on from.
  void open();
  /// Whether there is one.
  bool resumes() const { return !from_.empty(); }
  /// Rank 0's; null without --output-dir and on the other ranks.
  const RunDir* run_dir() const { return run_dir_.get(); }
  /// Collective. Runs `load` on rank 0, whose weights DataParallel hands on; it gives a line for
  /// the console. Not when the run goes on from a checkpoint, which has its own.
  void init_weights(const char* flag, const std::function<std::string()>& load);
  /// Collective. Moves model to device(), makes it data-parallel, and makes its optimizer. `adjust`
  /// changes the options that the flags give.
  DataParallel& wrap(Module& model, const std::function<DdpOptions(DdpOptions)>& adjust = nullptr);
  /// Collective. Trains, and tells how it went but for the last line. Throws StoppedBySignal when
  /// training ended before its time because a rank was asked to stop (stop_signal.h).
  TrainResult train(const TrainingTask& task);

 private:
  /// Runs `work`; when it throws, tells the other ranks why and leaves a ring log for `lockstep
  /// diagnose`.
  void or_leave_word(const std::function<void()>& work);
  void wrap_model(Module& model, const std::function<DdpOptions(DdpOptions)>& adjust);
  TrainResult run(const TrainingTask& task);
  DdpOptions with_watch(DdpOptions options);
  NonfiniteOptions nonfinite_options() const;
  TrainerOptions options_for(const TrainingTask& task) const;
  void introduce(const TrainingTask& task);
  void resume(Trainer& trainer);
  [[noreturn]] void throw_stopped(const TrainResult& result) const;

  const char* program_;
  const TrainerFlags& flags_;
  ProcessGroup& group_;
  const RankPlace& place_;
  int threads_;
  const Device device_;
  Progress progress_;
  FaultyRank faults_;
  std::unique_ptr<RunDir> run_dir_;
  std::string from_;  // the checkpoint to go on from; empty: none
  std::string weights_;
  Timeline timeline_;
  std::shared_ptr<CommHook> hook_;
  NonfiniteWatch nonfinite_;
  Module* model_ = nullptr;
  std::unique_ptr<DataParallel> ddp_;
  std::unique_ptr<NoSync> no_sync_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<Ema> ema_;
};

/// Before there are processes: what is wrong with the flags for `world` ranks. Throws as a run
/// would.
void preflight_flags(const TrainerFlags& flags, int world);
/// The same of the output directory, the bucket plan for a model's `parameters`, and the
/// checkpoint to go on from, which a run with `traits` must fit. Returns whether there is one.
bool preflight_files(const TrainerFlags& flags, int world, const std::vector<RunTrait>& traits,
                     const std::function<std::vector<NamedParameter>()>& parameters);

}  // namespace lockstep
