// The ring logs of a rank as a file, for when a run has failed. `lockstep diagnose` reads the files
// of all ranks; report/ring_log.h says what is in them.
#pragma once

#include "lockstep/distributed/comm/process_group.h"

#include <string>

namespace lockstep {

/// Writes the last operations of `group`, of the groups split from it and of those that it is
/// split from, with the times when they were issued, began and ended, and what was last heard of
/// the other ranks. `group` may have failed. `error`: what this rank fails of; may be empty.
///
/// Whether there was anything to write: a group of one rank keeps no log. Throws IoError when the
/// file cannot be written. Any thread.
bool write_op_log(const ProcessGroup& group, const std::string& path, const std::string& error);

/// "DIRECTORY/ring.rankN.json"
std::string op_log_file(const std::string& directory, int rank);

}  // namespace lockstep
