// Ring logs, read back: the last operations of each rank of a run that has failed, as
// distributed/comm/write_op_log.h writes them. A file is one JSON object:
//
//   {"kind": "ring", "format": 1, "rank": 0, "world_size": 3, "host": "a", "process": 17,
//    "written_us": 1764550000000000, "error": "what the rank failed of",
//    "heard": [{"rank": 2, "text": "what it heard of rank 2 last"}, ...],
//    "groups": [{"name": "world", "ranks": [0, 1, 2], "failure": "", "collectives": 41,
//                "ops": [{"sequence": 41, "collective": 41, "call": "barrier()", "label": "",
//                         "state": "failed", "queued_us": ..., "begun_us": ..., "started_us": null,
//                         "finished_us": ...}, ...]}]}
//
// Times are microseconds since 1970 by the rank's own clock, null for what has not come.
// "collective" counts the group's collectives, null for a send or a receive; "collectives" is how
// many have ended well.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::report {

struct RingOp {
  int64_t sequence = 0;
  std::optional<int64_t> collective;
  std::string call, label;
  std::string state;  // "queued", "waiting", "moving", "done" or "failed"
  std::optional<int64_t> queued_us, begun_us, started_us, finished_us;

  /// It had begun and did not end well: the rank was in it.
  bool unfinished() const { return begun_us.has_value() && state != "done"; }
};

struct RingGroup {
  std::string name;
  std::vector<int> ranks;  // of the job
  std::string failure;
  int64_t collectives = 0;
  std::vector<RingOp> ops;  // oldest first
};

struct RingLog {
  int rank = 0;
  int world_size = 1;
  std::string host;
  int64_t written_us = 0;
  std::string error;
  std::vector<std::pair<int, std::string>> heard;  // rank, words
  std::vector<RingGroup> groups;
};

/// Of a whole run.
struct RingLogs {
  std::string directory;
  int world_size = 1;
  std::vector<RingLog> logs;  // by rank; at least one
  std::vector<int> missing;
};

/// Throws IoError with `path`, what was wanted and what was got, for what is no ring log.
RingLog parse_ring_log(std::string_view text, const std::string& path);

/// The folder's ring.rankN.json. Throws IoError when there is none, or when one is no ring log or
/// that of a run with another number of ranks.
RingLogs read_ring_logs(const std::string& directory);

}  // namespace lockstep::report
