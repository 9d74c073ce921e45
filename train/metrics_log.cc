#include "lockstep/train/metrics_log.h"

#include "lockstep/base/error.h"
#include "lockstep/io/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

bool lies_before(const Json& json, const Position& start) {
  if (!json.is_object()) return false;  // cut short by the death of the process
  const auto number = [&](const char* key) {
    const auto found = json.find(key);
    return found != json.end() && found->is_number_integer() ? found->get<int64_t>() : INT64_MAX;
  };
  const auto kind = json.find("kind");
  const bool epoch_line = kind != json.end() && *kind == "epoch";
  return epoch_line ? number("epoch") < start.epoch : number("step") <= start.step;
}

}  // namespace

MetricsLog::MetricsLog(std::string path, const Position& start) : path_(std::move(path)) {
  if (start != Position{}) {
    std::ifstream in(path_);
    for (std::string line; std::getline(in, line);) {
      const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
      if (!lies_before(json, start)) continue;
      kept_ += line + "\n";
      const auto seconds = json.find("seconds");
      if (seconds != json.end() && seconds->is_number()) seconds_before_ = *seconds;
    }
  }
  write_file_atomically(path_, kept_);
  fd_ = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (fd_ < 0) throw IoError(str(path_, ": cannot be opened: ", std::strerror(errno)));
}

MetricsLog::~MetricsLog() {
  if (fd_ >= 0) ::close(fd_);
}

std::string MetricsLog::write(const char* kind, int64_t epoch, int64_t step, const Fields& fields) {
  using std::chrono::duration, std::chrono::system_clock;
  const auto milliseconds = [](double seconds) { return std::round(1000 * seconds) / 1000; };
  Json json{{"kind", kind}, {"epoch", epoch}, {"step", step}};
  json["seconds"] = milliseconds(seconds_before_ + duration<double>(Clock::now() - start_).count());
  json["unix_time"] =
      milliseconds(duration<double>(system_clock::now().time_since_epoch()).count());
  for (const auto& [name, value] : fields) json[name] = value;
  const std::string line = json.dump() + "\n";
  const ssize_t written = ::write(fd_, line.data(), line.size());
  if (written != static_cast<ssize_t>(line.size())) {
    throw IoError(str(path_, ": cannot be written: ",
                      written < 0 ? std::strerror(errno) : "no space left on device"));
  }
  return line;
}

}  // namespace lockstep
