// What a process has open: its listening sockets, descriptors and memory, from /proc.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <system_error>

namespace lockstep::testing {

struct Listener {
  std::string address;  // hexadecimal, as the kernel prints it
  uint16_t port = 0;
  auto operator<=>(const Listener&) const = default;
};

/// 127.0.0.1 on a little-endian machine.
inline const char* const kLoopback = "0100007F";

/// The targets of its descriptors, such as "socket:[4711]"; those that vanish meanwhile are left
/// out.
inline std::multiset<std::string> descriptors_of(pid_t pid) {
  std::multiset<std::string> targets;
  std::error_code error;
  const auto folder = "/proc/" + std::to_string(pid) + "/fd";
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    std::error_code gone;
    const auto target = std::filesystem::read_symlink(at->path(), gone);
    if (!gone) targets.insert(target.string());
  }
  return targets;
}

/// All TCP sockets in listening state that the process holds.
inline std::set<Listener> listeners_of(pid_t pid) {
  const auto held = descriptors_of(pid);
  std::set<Listener> found;
  for (const char* table : {"/net/tcp", "/net/tcp6"}) {
    std::ifstream in("/proc/" + std::to_string(pid) + table);
    std::string line;
    std::getline(in, line);
    while (std::getline(in, line)) {
      std::istringstream words(line);
      std::string number, local, remote, state, skipped, inode;
      words >> number >> local >> remote >> state;
      for (int i = 0; i < 5; ++i) words >> skipped;
      words >> inode;
      if (state != "0A" || held.count("socket:[" + inode + "]") == 0) continue;
      const size_t colon = local.find(':');
      found.insert({local.substr(0, colon),
                    static_cast<uint16_t>(std::stoul(local.substr(colon + 1), nullptr, 16))});
    }
  }
  return found;
}

/// A line of /proc/PID/status in KiB, such as "VmHWM"; 0 when the process is gone.
inline long kib_of(pid_t pid, const std::string& name) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(in, line);) {
    if (line.rfind(name + ":", 0) == 0) return std::stol(line.substr(name.size() + 1));
  }
  return 0;
}

}  // namespace lockstep::testing
