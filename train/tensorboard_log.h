// TensorboardLog: what metrics.jsonl says, once more as an event file, so that
// `tensorboard --logdir runs` shows a run without further ado.
#pragma once

#include "lockstep/io/event_file.h"

#include <memory>
#include <string>
#include <string_view>

namespace lockstep {

/// The file is events.out.tfevents.<seconds since 1970>.<host>.<process>.lockstep. Each start makes
/// a new one that holds all the run has behind it, empties the one before and deletes older ones:
/// so a resumed run shows each step once. It begins by declaring that all steps start anew, for a
/// TensorBoard that has read an earlier file already.
class TensorboardLog {
 public:
  /// `lines`: those of metrics.jsonl so far. Throws IoError.
  TensorboardLog(const std::string& directory, std::string_view lines);

  /// A line of metrics.jsonl: its unix_time and step, and a scalar for each field that has a tag.
  void add(std::string_view line);

  /// Whether a file of this name was made by this class.
  static bool made(std::string_view file_name);

 private:
  std::unique_ptr<EventFile> file_;
};

}  // namespace lockstep
