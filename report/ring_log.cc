#include "lockstep/report/ring_log.h"

#include "lockstep/base/error.h"
#include "lockstep/io/file.h"
#include "lockstep/io/json_text.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <filesystem>

namespace lockstep::report {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// A log holds some hundred operations of some hundred bytes for each group.
constexpr uint64_t kMostBytes = uint64_t{64} << 20;
constexpr int64_t kMostRanks = 1 << 20;
// Times and their differences stay far from overflow: 146,000 years.
constexpr int64_t kMost = int64_t{1} << 62;

/// A value of the file and where it is, for messages.
class Field {
 public:
  Field(const Json& value, std::string where) : value_(value), where_(std::move(where)) {}

  Field operator[](const char* key) const {
    if (!value_.is_object()) wrong("an object");
    const auto found = value_.find(key);
    if (found == value_.end()) throw IoError(str(where_, ": wanted \"", key, "\", got none"));
    return {*found, str(where_, ": ", key)};
  }

  std::vector<Field> list() const {
    if (!value_.is_array()) wrong("an array");
    std::vector<Field> fields;
    for (const Json& value : value_) {
      fields.emplace_back(value, str(where_, "[", fields.size(), "]"));
    }
    return fields;
  }

  /// One line for a console: what could move its cursor or colour it becomes '?'.
  std::string text() const {
    if (!value_.is_string()) wrong("a text");
    auto text = value_.get<std::string>();
    for (char& c : text) {
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
    }
    return text;
  }

  int64_t number(int64_t least, int64_t most) const {
    const bool fits = value_.is_number_integer() &&
                      !(value_.is_number_unsigned() && value_.get<uint64_t>() > uint64_t{kMost}) &&
                      value_.get<int64_t>() >= least && value_.get<int64_t>() <= most;
    if (!fits) wrong(str("a whole number from ", least, " to ", most));
    return value_.get<int64_t>();
  }

  std::optional<int64_t> number_or_null() const {
    if (value_.is_null()) return std::nullopt;
    return number(0, kMost);
  }

  int rank() const { return static_cast<int>(number(0, kMostRanks)); }

  [[noreturn]] void wrong(const std::string& wanted) const {
    throw IoError(str(where_, ": wanted ", wanted, ", got ", json_text(value_)));
  }

 private:
  const Json& value_;
  std::string where_;
};

RingOp op_of(const Field& field) {
  RingOp op{.sequence = field["sequence"].number(0, kMost),
            .collective = field["collective"].number_or_null(),
            .call = field["call"].text(),
            .label = field["label"].text(),
            .state = field["state"].text(),
            .queued_us = field["queued_us"].number_or_null(),
            .begun_us = field["begun_us"].number_or_null(),
            .started_us = field["started_us"].number_or_null(),
            .finished_us = field["finished_us"].number_or_null()};
  for (const char* state : {"queued", "waiting", "moving", "done", "failed"}) {
    if (op.state == state) return op;
  }
  field["state"].wrong("queued, waiting, moving, done or failed");
}

RingGroup group_of(const Field& field) {
  RingGroup group{.name = field["name"].text(),
                  .ranks = {},
                  .failure = field["failure"].text(),
                  .collectives = field["collectives"].number(0, kMost),
                  .ops = {}};
  for (const Field& rank : field["ranks"].list()) group.ranks.push_back(rank.rank());
  for (const Field& op : field["ops"].list()) group.ops.push_back(op_of(op));
  return group;
}

/// "ring.rank12.json" -> 12
std::optional<int> rank_of(std::string_view name) {
  constexpr std::string_view kBegin = "ring.rank", kEnd = ".json";
  if (!name.starts_with(kBegin) || !name.ends_with(kEnd)) return std::nullopt;
  name.remove_prefix(kBegin.size());
  name.remove_suffix(kEnd.size());
  int rank = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), rank);
  if (error != std::errc() || end != name.data() + name.size() || rank < 0) return std::nullopt;
  return rank;
}

}  // namespace

RingLog parse_ring_log(std::string_view text, const std::string& path) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) throw IoError(str(path, ": wanted a ring log, got what is no JSON"));
  const Field file(json, path);
  if (file["kind"].text() != "ring") file["kind"].wrong("\"ring\"");
  file["format"].number(1, 1);
  RingLog log{.rank = file["rank"].rank(),
              .world_size = static_cast<int>(file["world_size"].number(1, kMostRanks)),
              .host = file["host"].text(),
              .written_us = file["written_us"].number(0, kMost),
              .error = file["error"].text(),
              .heard = {},
              .groups = {}};
  if (log.rank >= log.world_size) file["rank"].wrong("a rank below world_size");
  for (const Field& heard : file["heard"].list()) {
    log.heard.emplace_back(heard["rank"].rank(), heard["text"].text());
  }
  for (const Field& group : file["groups"].list()) log.groups.push_back(group_of(group));
  return log;
}

RingLogs read_ring_logs(const std::string& directory) {
  std::vector<int> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    if (const auto rank = rank_of(entry.path().filename().string())) found.push_back(*rank);
  }
  if (error) throw IoError(str(directory, ": cannot be read: ", error.message()));
  if (found.empty()) {
    throw IoError(str(directory,
                      ": wanted ring.rankN.json, got none; a trainer writes them into its "
                      "--output-dir when it fails"));
  }
  std::sort(found.begin(), found.end());
  RingLogs run{.directory = directory, .world_size = 1, .logs = {}, .missing = {}};
  for (const int rank : found) {
    const std::string path = str(directory, "/ring.rank", rank, ".json");
    const std::vector<uint8_t> bytes = read_file(path, kMostBytes);
    RingLog log = parse_ring_log({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path);
    if (log.rank != rank) {
      throw IoError(str(path, ": wanted the log of rank ", rank, ", got that of rank ", log.rank));
    }
    if (!run.logs.empty() && log.world_size != run.world_size) {
      throw IoError(str(path, ": wanted the log of a run of ", run.world_size,
                        " ranks, got one of ", log.world_size,
                        "; are there logs of two runs in the folder?"));
    }
    run.world_size = log.world_size;
    run.logs.push_back(std::move(log));
  }
  for (int rank = 0; rank < run.world_size; ++rank) {
    if (std::find(found.begin(), found.end(), rank) == found.end()) run.missing.push_back(rank);
  }
  return run;
}

}  // namespace lockstep::report
