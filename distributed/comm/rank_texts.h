// What every rank has to say, in words: for comparing what the ranks hold, and for telling it.
#pragma once

#include "lockstep/distributed/comm/process_group.h"

#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// Collective: the text of every rank, on every rank. Host memory.
std::vector<std::string> gather_texts(const std::string& mine, ProcessGroup& group);

/// Where a rank's lines differ from rank 0's.
struct LineDifference {
  int rank = 0;
  size_t line = 0;            // 0 is the first
  std::string here, on_zero;  // on that rank and on rank 0; "nothing" past the last line
  size_t lines = 0, lines_on_zero = 0;
};

/// Collective: the first difference on the first rank that has one, the same on every rank.
std::optional<LineDifference> first_difference(const std::vector<std::string>& lines,
                                               ProcessGroup& group);

}  // namespace lockstep
