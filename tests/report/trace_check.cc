#include "lockstep/tests/report/trace_check.h"

#include "lockstep/base/str.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace lockstep::testing {
namespace {

using Json = nlohmann::json;
using Lane = std::pair<int64_t, int64_t>;  // process, thread

struct Slice {
  int64_t begin, end;
};

struct Trace {
  std::map<Lane, std::vector<Slice>> slices;
  std::map<Lane, std::string> lanes;
  std::map<int64_t, std::string> processes;
  std::set<Lane> used;
};

bool has_number(const Json& event, const char* key) {
  return event.contains(key) && event[key].is_number();
}

std::string add_name(const Json& event, const Lane& lane, Trace& trace) {
  const std::string what = event["name"];
  const Json name = event.value("args", Json::object()).value("name", Json());
  if (!name.is_string()) return "a name without args.name";
  if (what == "process_name") {
    return trace.processes.emplace(lane.first, name).second ? "" : "a process with two names";
  }
  if (what != "thread_name") return "metadata " + what;
  return trace.lanes.emplace(lane, name).second ? "" : "a lane with two names";
}

std::string add_event(const Json& event, Trace& trace) {
  if (!event.is_object()) return "an event that is no object";
  for (const char* key : {"name", "ph"}) {
    if (!event.contains(key) || !event[key].is_string()) return str("an event without ", key);
  }
  for (const char* key : {"pid", "tid"}) {
    if (!event.contains(key) || !event[key].is_number_integer()) {
      return str("an event without ", key);
    }
  }
  const Lane lane{event["pid"], event["tid"]};
  const std::string ph = event["ph"];
  if (ph == "M") return add_name(event, lane, trace);
  if (!has_number(event, "ts") || event["ts"] < 0) return "an event without a time";
  if (!event.contains("cat") || !event["cat"].is_string()) return "an event without a category";
  if (!event.contains("args") || !event["args"].is_object()) return "an event without args";
  trace.used.insert(lane);
  if (ph == "i") {
    const std::string scope = event.value("s", "");
    return scope == "t" || scope == "p" || scope == "g" ? "" : "an instant without a scope";
  }
  if (ph != "X") return "an event of kind " + ph;
  if (!has_number(event, "dur") || event["dur"] < 0) return "a slice without a length";
  const auto ns = [&](const char* key) { return std::llround(event[key].get<double>() * 1000); };
  trace.slices[lane].push_back({ns("ts"), ns("ts") + ns("dur")});
  return "";
}

std::string overlap(const std::string& lane, std::vector<Slice> slices) {
  std::stable_sort(slices.begin(), slices.end(), [](const Slice& a, const Slice& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
  });
  const bool nests = !lane.starts_with("communication");
  std::vector<Slice> open;
  for (const Slice& slice : slices) {
    while (!open.empty() && open.back().end <= slice.begin) open.pop_back();
    if (!open.empty() && (!nests || slice.end > open.back().end)) {
      return str("slices overlap on ", lane, " at ", slice.begin, " ns");
    }
    if (slice.end > slice.begin) open.push_back(slice);
  }
  return "";
}

}  // namespace

std::string trace_fault(const std::string& text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return "no JSON object";
  if (!json.contains("traceEvents") || !json["traceEvents"].is_array()) return "no traceEvents";
  if (json.value("displayTimeUnit", "ms") != "ms") return "an unknown unit";
  Trace trace;
  for (const Json& event : json["traceEvents"]) {
    if (const std::string fault = add_event(event, trace); !fault.empty()) {
      return fault + ": " + event.dump();
    }
  }
  for (const Lane& lane : trace.used) {
    if (!trace.lanes.contains(lane)) return "a lane without a name";
    if (!trace.processes.contains(lane.first)) return "a process without a name";
  }
  for (const auto& [lane, slices] : trace.slices) {
    if (const std::string fault = overlap(trace.lanes[lane], slices); !fault.empty()) return fault;
  }
  return "";
}

}  // namespace lockstep::testing
