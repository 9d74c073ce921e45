// run.json: what was run, on what, from which source.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

struct RunInfo {
  std::string program;
  std::vector<std::string> arguments;  // of the command line
  std::vector<std::pair<std::string, std::string>>
      settings;  // every option with its value in force
  uint64_t seed = 0;
  int world_size = 1;
  int threads = 1;                       // of each rank
  int64_t resumed_step = -1;             // -1: started fresh
  std::vector<std::string> faults = {};  // by which it is broken on purpose, in words
};

/// Writes it atomically. Throws IoError.
void write_run_info(const std::string& path, const RunInfo& info);

/// The processor's name as the kernel gives it, or "unknown".
std::string processor_name();

}  // namespace lockstep
