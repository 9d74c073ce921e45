#include "lockstep/report/run_data.h"

#include "lockstep/base/error.h"
#include "lockstep/io/file.h"
#include "lockstep/io/json_text.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <limits>
#include <string_view>

namespace lockstep::report {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr uint64_t kMostInfo = uint64_t{16} << 20, kMostMetrics = uint64_t{1} << 30;  // bytes

std::string text_of(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  return value.is_null() ? "" : json_text(value);
}

void read_info(RunData& run) {
  const std::string path = run.path + "/run.json";
  const std::vector<uint8_t> bytes = read_file(path, kMostInfo);
  const Json json = Json::parse(bytes.begin(), bytes.end(), nullptr, /*allow_exceptions=*/false);
  const auto settings = json.is_object() ? json.find("settings") : json.end();
  if (settings == json.end() || !settings->is_object()) {
    throw IoError(str(path, ": wanted the run.json of a training run, got ",
                      json.is_discarded() ? "what is no JSON, or is cut short" : "other JSON"));
  }
  for (const auto& [name, value] : settings->items()) {
    run.settings.emplace_back(name, text_of(value));
  }
  const auto world = json.find("world_size");
  if (world != json.end() && world->is_number_integer()) run.world_size = world->get<int64_t>();
}

/// Whether `text` is a line of metrics.
bool parse_line(std::string_view text, RunLine& line) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return false;
  const auto kind = json.find("kind");
  if (kind == json.end() || !kind->is_string()) return false;
  line.kind = kind->get<std::string>();
  for (const auto& [name, value] : json.items()) {
    if (value.is_number()) line.fields.emplace_back(name, value.get<double>());
    if (value.is_null()) line.fields.emplace_back(name, kNone);
  }
  return true;
}

void read_metrics(RunData& run) {
  const std::vector<uint8_t> bytes = read_file(run.path + "/metrics.jsonl", kMostMetrics);
  std::string_view rest(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    const bool cut_short = end == rest.npos;
    const std::string_view text = rest.substr(0, end);
    rest.remove_prefix(cut_short ? rest.size() : end + 1);
    RunLine line;
    if (parse_line(text, line)) {
      run.lines.push_back(std::move(line));
    } else if (!cut_short) {
      ++run.unreadable;
    }
  }
}

}  // namespace

double RunLine::operator[](const std::string& field) const {
  const auto found =
      std::find_if(fields.begin(), fields.end(), [&](const auto& f) { return f.first == field; });
  return found == fields.end() ? kNone : found->second;
}

std::string RunData::setting(const std::string& wanted) const {
  for (const auto& [known, value] : settings) {
    if (known == wanted) return value;
  }
  return "";
}

std::vector<RunLine> RunData::of_kind(const std::string& kind) const {
  std::vector<RunLine> some;
  std::copy_if(lines.begin(), lines.end(), std::back_inserter(some),
               [&](const RunLine& line) { return line.kind == kind; });
  return some;
}

std::vector<RunLine> RunData::evaluations() const {
  std::vector<RunLine> some;
  std::copy_if(lines.begin(), lines.end(), std::back_inserter(some),
               [](const RunLine& line) { return line.is_evaluation(); });
  return some;
}

RunData read_run(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  constexpr const char* kWanted = "wanted the folder that a trainer wrote (--output-dir), got ";
  if (!fs::exists(status)) throw IoError(str(path, ": ", kWanted, "nothing of this name"));
  if (!fs::is_directory(status)) throw IoError(str(path, ": ", kWanted, "a file"));
  for (const char* name : {"run.json", "metrics.jsonl"}) {
    if (!fs::exists(fs::path(path) / name, error)) {
      throw IoError(str(path, ": ", kWanted, "one without ", name));
    }
  }
  RunData run{.path = path};
  const fs::path whole = fs::absolute(path, error).lexically_normal();
  run.name = (whole.has_filename() ? whole : whole.parent_path()).filename().string();
  read_info(run);
  read_metrics(run);
  return run;
}

}  // namespace lockstep::report
