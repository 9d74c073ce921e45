// A run's folder, read back: run.json and metrics.jsonl as the trainers write them
// (train/run_dir.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::report {

/// A line of metrics.jsonl.
struct RunLine {
  /// "train": an interval of training; "epoch": an epoch's evaluation; "evaluation": another one.
  std::string kind;
  std::vector<std::pair<std::string, double>> fields;  // in their order; NaN for null

  /// NaN when there is none.
  double operator[](const std::string& field) const;
  bool is_evaluation() const { return kind == "epoch" || kind == "evaluation"; }
};

struct RunData {
  std::string path;
  std::string name = {};  // of its folder
  std::vector<std::pair<std::string, std::string>> settings =
      {};  // without the dashes: {"lr", "0.1"}
  int64_t world_size = 1;
  std::vector<RunLine> lines = {};
  size_t unreadable = 0;  // lines, but for a last one that its process's death cut short

  /// "" when there is none of this name.
  std::string setting(const std::string& name) const;
  /// The lines of one kind.
  std::vector<RunLine> of_kind(const std::string& kind) const;
  /// Those of epochs and the others.
  std::vector<RunLine> evaluations() const;
};

/// Throws IoError for what is no run's folder, and for a run.json that is malformed.
RunData read_run(const std::string& path);

}  // namespace lockstep::report
