// RunDir: the output directory of one run. It holds
//   run.json            what was run: arguments, commit, seed, versions, processor, world size
//   metrics.jsonl       a line for each log interval and each epoch
//   events.out.tfevents.*.lockstep  the same for TensorBoard
//   last.safetensors    the newest checkpoint; best.safetensors the one with the best accuracy
//   step-N.safetensors  earlier ones, if they are to be kept (kept_checkpoints.h)
//   bucket_plan.json    which gradients travel together: what --bucket-plan takes
//   steps.rankN.jsonl   where each rank's steps spent their time (step_log.h)
//   ring.rankN.json     each rank's last collectives, if the run has failed: for `lockstep
//   diagnose` report.html         and trace.json, when `lockstep report` has made them rankN.log
//   what the other ranks printed, when the launcher made them
#pragma once

#include <string>

namespace lockstep {

struct RunDirOptions {
  std::string path;
  bool resume = false;     // a run's files may be there and are gone on with
  bool overwrite = false;  // a run's files may be there and are deleted; other files are left alone
};

class RunDir {
 public:
  /// Makes the directory (and those above it) and takes a lock that lasts as long as this object or
  /// its process. Throws IoError when it cannot be made or written, when it is not empty and
  /// neither resume nor overwrite is set, or when another process uses it. Rank 0 alone does this.
  explicit RunDir(const RunDirOptions& options);
  ~RunDir();
  RunDir(const RunDir&) = delete;
  RunDir& operator=(const RunDir&) = delete;

  /// What the constructor would refuse, without making or deleting anything: for a launcher, so
  /// that a mistake is told once, and before it opens its logs there: they may be those of a run
  /// that is still going.
  static void check(const RunDirOptions& options);

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }
  std::string last_checkpoint() const { return file("last.safetensors"); }
  std::string best_checkpoint() const { return file("best.safetensors"); }

 private:
  std::string path_;
  int lock_fd_ = -1;
};

}  // namespace lockstep
