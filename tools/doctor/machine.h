// What lockstep doctor looks at: plain facts, so that tests can make up a machine.
#pragma once

#include "lockstep/base/isa_guard.h"
#include "lockstep/distributed/comm/environment.h"
#include "lockstep/distributed/comm/interface.h"

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::doctor {

inline constexpr double kNoQuota = std::numeric_limits<double>::infinity();
inline constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

struct Space {
  std::string path;
  bool writable = true;
  uint64_t free_bytes = kUnlimited;
};

struct Machine {
  // The program and the processor
  IsaBits built_for = 0, available = 0;
  std::string processor;
  int processors = 1;             // of the machine
  int allowed = 1;                // that this process may run on
  double quota = kNoQuota;        // processors' worth of time that its cgroup gets
  uint64_t memory = 0;            // bytes
  uint64_t memory_available = 0;  // bytes, the cgroup's limit considered
  std::string clock_source;

  // GPU
  std::string cuda;  // why it cannot be used; empty: it can
  bool built_with_cuda = false;
  std::vector<std::string> gpus;  // as the driver names them
  std::string driver;             // its version; empty: none

  // Network
  std::string host_name;
  std::vector<std::string> host_addresses;  // what the name stands for
  std::vector<comm::Interface> interfaces;
  std::string outward;                             // the address of the default route
  std::pair<int, int> system_ports{32768, 60999};  // that the system hands out

  // Limits
  Space temp, shared_memory;
  uint64_t open_files = kUnlimited;
  uint64_t locked_memory = kUnlimited;

  Environment env = [](const char*) { return std::nullopt; };
  std::string rank;         // who started this process and as what, in words
  std::string rank_error;   // or what is wrong with that
  std::string token_error;  // what is wrong with the user's secret
};

/// This machine, as this process sees it.
Machine read_machine();

/// The names of instruction sets, as "avx2 fma"; of many the last few.
std::string isa_names(IsaBits bits);

/// Name and value, for people and for --json.
std::vector<std::pair<std::string, std::string>> facts(const Machine& machine);

}  // namespace lockstep::doctor
