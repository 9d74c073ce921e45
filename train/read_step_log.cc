#include "lockstep/train/read_step_log.h"

#include "lockstep/base/error.h"
#include "lockstep/io/file.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

namespace lockstep {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kMostBytes = uint64_t{4} << 30;
constexpr int kFormat = 1;
constexpr size_t kStepColumns = 2 + kStepParts + 3, kBucketColumns = 6, kEventColumns = 6;
// Times of a hostile file must not overflow when they are added: 146 years.
constexpr int64_t kMostNs = int64_t{1} << 62;

/// Thrown for a line that is none of ours.
struct Unreadable {};

int64_t integer(const Json& value) {
  if (!value.is_number_integer()) throw Unreadable();
  if (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{kMostNs}) throw Unreadable();
  const auto number = value.get<int64_t>();
  if (number > kMostNs || number < -kMostNs) throw Unreadable();
  return number;
}

double real(const Json& value) {
  if (value.is_null()) return kNever;
  if (!value.is_number() || !std::isfinite(value.get<double>())) throw Unreadable();
  return value.get<double>();
}

const Json& member(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) throw Unreadable();
  return *found;
}

const Json& row_of(const Json& row, size_t columns) {
  if (!row.is_array() || row.size() != columns) throw Unreadable();
  return row;
}

const Json& rows_of(const Json& object) {
  const Json& rows = member(object, "rows");
  if (!rows.is_array()) throw Unreadable();
  return rows;
}

StepRecord step_record(const Json& row) {
  // Runs of before there were graphs lack the last part.
  const bool old = row.is_array() && row.size() + 1 == kStepColumns;
  const size_t parts = old ? kStepParts - 1 : kStepParts;
  row_of(row, 2 + parts + 3);
  StepRecord step{.step = integer(row[0]), .wall = real(row[1])};
  for (size_t i = 0; i < parts; ++i) step.parts[i] = real(row[2 + i]);
  step.other = real(row[2 + parts]);
  step.hidden = real(row[3 + parts]);
  step.bytes = real(row[4 + parts]);
  return step;
}

BucketLine bucket_line(const Json& json) {
  BucketLine line{.step = integer(member(json, "step")), .buckets = {}};
  for (const Json& row : rows_of(json)) {
    row_of(row, kBucketColumns);
    line.buckets.push_back(
        {real(row[0]), real(row[1]), real(row[2]), real(row[3]), real(row[4]), real(row[5])});
  }
  return line;
}

Activity activity_of(const Json& value) {
  if (!value.is_string()) throw Unreadable();
  for (size_t i = 0; i < kActivityCount; ++i) {
    const auto activity = static_cast<Activity>(i);
    if (value.get_ref<const std::string&>() == name_of(activity)) return activity;
  }
  return Activity::kOther;
}

StepEvents step_events(const Json& json) {
  StepEvents step{.step = integer(member(json, "step")),
                  .begin_ns = integer(member(json, "begin_ns")),
                  .end_ns = integer(member(json, "end_ns")),
                  .events = {}};
  for (const Json& row : rows_of(json)) {
    row_of(row, kEventColumns);
    StepEvents::Event event;
    event.span.activity = activity_of(row[0]);
    event.thread = static_cast<int>(std::clamp<int64_t>(integer(row[1]), 0, 999));
    event.span.id = static_cast<int32_t>(std::clamp<int64_t>(integer(row[2]), -1, INT32_MAX));
    event.span.begin_ns = step.begin_ns + integer(row[3]);
    event.span.end_ns = std::max(event.span.begin_ns, step.begin_ns + integer(row[4]));
    event.span.bytes = integer(row[5]);
    step.events.push_back(event);
  }
  return step;
}

void add_clock(const Json& json, RankLog& log) {
  log.clocks.push_back({.offset_ns = integer(member(json, "clock_offset_ns")),
                        .error_ns = integer(member(json, "clock_error_ns")),
                        .at_ns = integer(member(json, "at_ns"))});
}

void add_line(const Json& json, RankLog& log) {
  if (json.is_array()) return log.steps.push_back(step_record(json));
  if (!json.is_object()) throw Unreadable();
  const std::string kind = json.value("kind", "");
  if (kind == "buckets") return log.buckets.push_back(bucket_line(json));
  if (kind == "events") return log.events.push_back(step_events(json));
  if (kind != "start" && kind != "end") throw Unreadable();
  add_clock(json, log);
  log.ended = kind == "end";
  if (log.ended) return;
  ++log.starts;
  log.world_size = static_cast<int>(
      std::clamp<int64_t>(integer(member(json, "world_size")), 1, int64_t{1} << 20));
  log.host = json.value("host", "");
}

/// Whether the first line is that of such a file.
bool begins_well(const Json& json) {
  return json.is_object() && json.value("kind", Json()) == "start" &&
         json.value("format", Json()) == kFormat;
}

}  // namespace

RankLog read_step_log(const std::string& path, int rank) {
  const std::vector<uint8_t> bytes = read_file(path, kMostBytes);
  std::string_view rest(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  RankLog log;
  log.rank = rank;
  for (bool first = true; !rest.empty(); first = false) {
    const size_t end = rest.find('\n');
    const bool cut_short = end == rest.npos;
    const Json json = Json::parse(rest.substr(0, end), nullptr, /*allow_exceptions=*/false);
    rest.remove_prefix(cut_short ? rest.size() : end + 1);
    if (first && !begins_well(json)) {
      throw IoError(str(path, ": wanted a step log of format ", kFormat,
                        ", got something else; it is written by a run with --output-dir"));
    }
    try {
      add_line(json, log);
    } catch (const Unreadable&) {
      if (!cut_short) ++log.unreadable;
    } catch (const Json::exception&) {
      if (!cut_short) ++log.unreadable;
    }
  }
  if (log.starts == 0) throw IoError(str(path, ": is empty; was the run killed as it began?"));
  return log;
}

int64_t clock_offset_at(const std::vector<ClockOffset>& clocks, int64_t ns) {
  const auto offset_of = [](const ClockOffset& clock) {
    return std::abs(clock.offset_ns) <= clock.error_ns ? 0 : clock.offset_ns;
  };
  if (clocks.empty()) return 0;
  const ClockOffset* before = &clocks.front();
  for (const ClockOffset& clock : clocks) {
    if (clock.at_ns > ns && clock.at_ns > before->at_ns) {
      const double share = std::max(0.0, static_cast<double>(ns - before->at_ns)) /
                           static_cast<double>(clock.at_ns - before->at_ns);
      return offset_of(*before) +
             static_cast<int64_t>(
                 std::llround(share * static_cast<double>(offset_of(clock) - offset_of(*before))));
    }
    before = &clock;
  }
  return offset_of(*before);
}

}  // namespace lockstep
