#include "lockstep/base/error.h"
#include "lockstep/distributed/comm/job_token.h"
#include "lockstep/distributed/comm/meeting_point.h"
#include "lockstep/distributed/comm/rank_env.h"
#include "lockstep/tensor/tensor.h"
#include "lockstep/tools/doctor/machine.h"

#include <netdb.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

namespace lockstep::doctor {
namespace {

std::string line_of(const std::string& path) {
  std::string line;
  std::ifstream in(path);
  std::getline(in, line);
  return line;
}

/// The value after the first "NAME   :" of a file.
std::string value_in(const std::string& path, const std::string& name) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(name)) continue;
    const size_t begin = line.find_first_not_of(" \t", line.find(':') + 1);
    return begin == line.npos ? "" : line.substr(begin);
  }
  return "";
}

void read_processors(Machine& m) {
  m.built_for = lockstep_isa_built_for;
  m.available = isa_available();
  m.processor = value_in("/proc/cpuinfo", "model name");
  m.processors = static_cast<int>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
  cpu_set_t mask;
  m.allowed = ::sched_getaffinity(0, sizeof mask, &mask) == 0 ? CPU_COUNT(&mask) : m.processors;
  m.clock_source = line_of("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  m.memory = static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
             static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::string available = value_in("/proc/meminfo", "MemAvailable");
  // Without /proc: what is free, which is less.
  m.memory_available = available.empty() ? static_cast<uint64_t>(::sysconf(_SC_AVPHYS_PAGES)) *
                                               static_cast<uint64_t>(::sysconf(_SC_PAGESIZE))
                                         : std::strtoull(available.c_str(), nullptr, 10) * 1024;
}

/// cgroup v2, of this process's group and all above it.
void read_cgroup(Machine& m) {
  std::string group = line_of("/proc/self/cgroup");
  group = group.starts_with("0::") ? group.substr(3) : "/";
  for (std::filesystem::path path = group;; path = path.parent_path()) {
    const std::string folder = "/sys/fs/cgroup" + path.string();
    std::istringstream cpu(line_of(folder + "/cpu.max"));
    std::string quota;
    double period = 0;
    if (cpu >> quota >> period && quota != "max" && period > 0) {
      m.quota = std::min(m.quota, std::atof(quota.c_str()) / period);
    }
    const std::string limit = line_of(folder + "/memory.max");
    if (!limit.empty() && limit != "max") {
      const uint64_t most = std::strtoull(limit.c_str(), nullptr, 10);
      const uint64_t used = std::strtoull(line_of(folder + "/memory.current").c_str(), nullptr, 10);
      m.memory_available = std::min(m.memory_available, most > used ? most - used : 0);
    }
    if (path.empty() || path == path.root_path()) return;
  }
}

void read_gpus(Machine& m) {
  try {
    Tensor::empty({1}, DType::kF32, Device::cuda());
  } catch (const Error& e) {
    m.cuda = e.what();
  }
  m.built_with_cuda = m.cuda.find("built without CUDA") == m.cuda.npos;
  std::error_code none;
  for (const auto& gpu : std::filesystem::directory_iterator("/proc/driver/nvidia/gpus", none)) {
    m.gpus.push_back(value_in((gpu.path() / "information").string(), "Model"));
  }
  std::istringstream version(value_in("/proc/driver/nvidia/version", "NVRM version"));
  for (std::string word; version >> word;) {  // "NVIDIA UNIX ... Kernel Module  580.65.06 ..."
    if (word.find('.') == word.npos || word.find_first_not_of("0123456789.") != word.npos) continue;
    m.driver = word;
    break;
  }
}

void read_network(Machine& m) {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  m.host_name = name;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (::getaddrinfo(name, nullptr, &hints, &list) == 0) {
    const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, &::freeaddrinfo);
    for (const addrinfo* a = list; a != nullptr; a = a->ai_next) {
      char text[NI_MAXHOST];
      const int rc =
          ::getnameinfo(a->ai_addr, a->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
      if (rc == 0) m.host_addresses.emplace_back(text);
    }
  }
  m.interfaces = comm::interfaces();
  m.outward = comm::outward_address();
  std::ifstream range("/proc/sys/net/ipv4/ip_local_port_range");
  range >> m.system_ports.first >> m.system_ports.second;
}

Space space_of(const std::string& path) {
  Space space{.path = path};
  struct statvfs info {};
  space.writable = ::access(path.c_str(), W_OK | X_OK) == 0;
  if (::statvfs(path.c_str(), &info) == 0) space.free_bytes = info.f_bavail * info.f_frsize;
  return space;
}

uint64_t limit_of(int which) {
  rlimit limit{};
  if (::getrlimit(static_cast<__rlimit_resource>(which), &limit) != 0) return kUnlimited;
  return limit.rlim_cur == RLIM_INFINITY ? kUnlimited : limit.rlim_cur;
}

void read_job(Machine& m) {
  m.env = process_environment();
  try {
    const auto rank = rank_from_env(m.env);
    if (!rank) {
      m.rank = "no launcher: a program started here is alone";
    } else {
      m.rank = str("rank ", rank->rank, " of ", rank->world_size, ", by ", rank->starter);
      const MeetingPoint at = meeting_point(*rank, m.env, "");
      m.rank += at.file.empty() ? str("; rank 0's store: ", at.host, ":", at.port)
                                : "; they meet at " + at.file;
    }
  } catch (const Error& e) {
    m.rank_error = e.what();
  }
  try {
    job_token("", m.env);
  } catch (const Error& e) {
    m.token_error = e.what();
  }
}

}  // namespace

Machine read_machine() {
  Machine m;
  read_processors(m);
  read_cgroup(m);
  read_gpus(m);
  read_network(m);
  std::error_code error;
  const auto temp = std::filesystem::temp_directory_path(error);
  m.temp = error ? Space{.path = "the temporary folder (TMPDIR)", .writable = false}
                 : space_of(temp.string());
  m.shared_memory = space_of("/dev/shm");
  m.open_files = limit_of(RLIMIT_NOFILE);
  m.locked_memory = limit_of(RLIMIT_MEMLOCK);
  read_job(m);
  return m;
}

}  // namespace lockstep::doctor
