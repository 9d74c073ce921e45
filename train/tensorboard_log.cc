#include "lockstep/train/tensorboard_log.h"

#include "lockstep/base/str.h"

#include <sys/utsname.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <vector>

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kPrefix = "events.out.tfevents.", kSuffix = ".lockstep";

struct Curve {
  const char* field;
  const char* tag;
};
constexpr Curve kCurves[] = {{"loss", "train/loss"},
                             {"accuracy", "train/accuracy"},
                             {"lr", "train/lr"},
                             {"test_loss", "test/loss"},
                             {"test_accuracy", "test/accuracy"},
                             {"samples_per_second", "speed/samples_per_second"},
                             {"step_ms", "speed/step_ms"},
                             {"data_wait_ms", "speed/data_wait_ms"},
                             {"comm_hidden_ms", "communication/hidden_ms"},
                             {"comm_exposed_ms", "communication/exposed_ms"}};

/// The record of a line; empty when it has nothing to show.
std::string record_of(std::string_view line) {
  const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return "";
  const auto number = [&](const char* field) -> const Json* {
    const auto found = json.find(field);
    return found != json.end() && found->is_number() ? &*found : nullptr;
  };
  std::vector<EventScalar> scalars;
  for (const Curve& curve : kCurves) {
    if (const Json* value = number(curve.field))
      scalars.push_back({curve.tag, value->get<float>()});
  }
  const Json *time = number("unix_time"), *step = number("step");
  if (scalars.empty() || step == nullptr || !step->is_number_integer()) return "";
  return event_scalars(time != nullptr ? time->get<double>() : 0, step->get<int64_t>(), scalars);
}

std::string file_name(std::time_t now) {
  utsname system{};
  ::uname(&system);
  char seconds[24];
  std::snprintf(seconds, sizeof seconds, "%010lld", static_cast<long long>(now));
  return str(kPrefix, seconds, ".", system.nodename, ".", ::getpid(), kSuffix);
}

}  // namespace

bool TensorboardLog::made(std::string_view name) {
  return name.starts_with(kPrefix) && name.ends_with(kSuffix);
}

TensorboardLog::TensorboardLog(const std::string& directory, std::string_view lines) {
  namespace fs = std::filesystem;
  std::vector<fs::path> old;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(directory, ignored)) {
    if (made(entry.path().filename().string())) old.push_back(entry.path());
  }
  const std::time_t now = std::time(nullptr);
  const std::string name = file_name(now);
  file_ = std::make_unique<EventFile>(str(directory, "/", name));
  std::string records =
      event_version(static_cast<double>(now)) + event_start(static_cast<double>(now), 0);
  while (!lines.empty()) {
    const size_t end = std::min(lines.find('\n'), lines.size());
    records += record_of(lines.substr(0, end));
    lines.remove_prefix(std::min(end + 1, lines.size()));
  }
  file_->append(records);
  std::erase_if(old, [&](const fs::path& path) { return path.filename() == name; });
  std::sort(old.begin(), old.end());
  for (const fs::path& path : old) {
    if (path == old.back()) {
      // A TensorBoard that is reading it goes on to the new one only if it still finds it.
      fs::resize_file(path, 0, ignored);
    } else {
      fs::remove(path, ignored);
    }
  }
}

void TensorboardLog::add(std::string_view line) {
  const std::string record = record_of(line);
  if (!record.empty()) file_->append(record);
}

}  // namespace lockstep
