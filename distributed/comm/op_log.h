// OpLog: the last operations of one group on this rank, for when something goes wrong.
//
// A ring of a fixed size: writing an operation down asks for no memory and takes some tens of
// nanoseconds (bench/op_log_cost).
//
// Threads: every function may be called from any thread.
#pragma once

#include "lockstep/distributed/comm/op.h"

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::comm {

/// Queued behind other operations; waiting for the other ranks to call the same; moving data; over.
enum class OpState : uint8_t { kQueued, kWaiting, kMoving, kDone, kFailed };

/// "queued", "waiting", "moving", "done", "failed".
const char* name_of(OpState state);

struct OpRecord {
  int64_t sequence = -1;
  int64_t collective = 0;  // as of Op
  Signature signature;
  OpText label;
  OpState state = OpState::kQueued;
  // Steady-clock nanoseconds; 0: not yet.
  int64_t queued_ns = 0;
  int64_t begun_ns = 0;     // the group's worker took it: it waits for the other ranks from here on
  int64_t started_ns = 0;   // all ranks are there
  int64_t finished_ns = 0;  // over, well or not

  bool point_to_point() const {
    return signature.kind == OpKind::kSend || signature.kind == OpKind::kRecv;
  }
};

/// "all_reduce(sum, f32, 1000 elements) [bucket 3: ...]"; no brackets without a label.
std::string describe(const OpRecord& record);

/// How far a rank has come in a group.
struct OpProgress {
  int64_t collectives = 0;          // that have ended; the number of the one that it is in, if any
  std::optional<OpRecord> running;  // which the worker has taken
  std::optional<OpRecord> last;     // which has ended most recently
};

class OpLog {
 public:
  static constexpr size_t kEntries = 256;

  explicit OpLog(size_t entries = kEntries) : ring_(entries) {}

  void queued(const Op& op);
  void begun(const Op& op);
  void started(const Op& op);
  void finished(const Op& op, bool well);
  /// The group has failed; the first reason counts.
  void group_failed(const std::string& why);

  OpProgress progress() const;
  /// Oldest first.
  std::vector<OpRecord> records() const;
  /// Why the group has failed; empty: it has not.
  std::string failure() const;

 private:
  OpRecord& slot(const Op& op);

  mutable std::mutex mutex_;
  std::vector<OpRecord> ring_;  // sequence modulo size
  OpProgress progress_;
  std::string failure_;
};

/// One group's log, and whose it is.
struct LoggedGroup {
  std::string name;        // the same on every member: "world"
  int rank = 0;            // this rank's number in it
  std::vector<int> ranks;  // the members' numbers in the job, in order
  std::shared_ptr<const OpLog> log;
};

/// What a rank knows when it fails.
struct LogCollection {
  std::vector<LoggedGroup> groups;
  /// Of ranks of the job: what was last heard of them, in words.
  std::vector<std::pair<int, std::string>> heard;
};

/// Implemented by groups that have logs.
class OpLogSource {
 public:
  virtual ~OpLogSource() = default;
  virtual void collect_logs(LogCollection& into) const = 0;
};

}  // namespace lockstep::comm
