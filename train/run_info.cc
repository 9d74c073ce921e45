#include "lockstep/train/run_info.h"

#include "lockstep/base/version.h"
#include "lockstep/io/atomic_file.h"

#include <gnu/libc-version.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <ctime>
#include <fstream>

namespace lockstep {
namespace {

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace

std::string processor_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != line.npos) return line.substr(colon + 2);
  }
  return "unknown";
}

void write_run_info(const std::string& path, const RunInfo& info) {
  utsname system{};
  ::uname(&system);
  nlohmann::ordered_json settings = nlohmann::ordered_json::object();
  for (const auto& [name, value] : info.settings) settings[name] = value;
  nlohmann::ordered_json json;
  json["program"] = info.program;
  json["arguments"] = info.arguments;
  json["settings"] = settings;
  json["seed"] = info.seed;
  json["world_size"] = info.world_size;
  json["threads_per_rank"] = info.threads;
  json["resumed_step"] = nullptr;
  if (info.resumed_step >= 0) json["resumed_step"] = info.resumed_step;
  if (!info.faults.empty()) json["broken_on_purpose"] = info.faults;
  json["started"] = utc_now();
  json["version"] = version();
  json["commit"] = build_commit();
  json["versions"]["compiler"] = __VERSION__;
  json["versions"]["libc"] = ::gnu_get_libc_version();
  json["versions"]["kernel"] = system.release;
  json["host"] = system.nodename;
  json["processor"] = processor_name();
  json["processors"] = ::sysconf(_SC_NPROCESSORS_ONLN);
  // Arguments are bytes; what is not UTF-8 in them must not end the run.
  write_file_atomically(
      path, json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

}  // namespace lockstep
