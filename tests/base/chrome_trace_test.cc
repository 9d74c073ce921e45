#include "lockstep/base/chrome_trace.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace lockstep {
namespace {

TEST_CASE("a trace is JSON, with transfers on lanes of their own that never overlap") {
  StepEvents step;
  step.step = 42;
  const auto add = [&](int thread, Activity activity, int64_t begin, int64_t end, int id) {
    step.events.push_back({{activity, id, begin, end, id >= 0 ? 100 : 0}, thread});
  };
  add(0, Activity::kForward, 1'000'123, 2'000'000, -1);
  add(0, Activity::kBackward, 2'000'000, 9'000'000, -1);
  add(0, Activity::kCommWait, 8'000'000, 9'000'000, -1);
  add(0, Activity::kBucketReady, 2'900'000, 2'900'000, 0);
  add(0, Activity::kBucketLaunch, 2'950'001, 2'950'001, 0);
  add(1, Activity::kCommunication, 3'000'000, 5'000'000, 0);
  add(1, Activity::kCommunication, 4'000'000, 6'000'000, 1);
  add(0, Activity::kCommunication, 5'000'000, 8'900'000, 2);  // recorded by the computing thread
  std::ostringstream out;
  const std::vector steps{step};
  write_chrome_trace(out, std::vector{RankTrace{3, steps}}, 4);

  const auto json = nlohmann::json::parse(out.str());
  CHECK(json["distributedInfo"]["rank"] == 3);
  CHECK(json["distributedInfo"]["world_size"] == 4);
  std::map<int, std::vector<std::pair<double, double>>> comm_lanes;
  std::map<int, int> compute_lanes;
  std::map<int, int> buckets;
  std::vector<std::string> marks;
  for (const auto& event : json["traceEvents"]) {
    CHECK(event["pid"] == 3);
    if (event["ph"] == "i") {
      marks.push_back(event["name"]);
      CHECK(event["args"] == nlohmann::json{{"step", 42}, {"bucket", 0}});
      CHECK(event["tid"] == 0);
    }
    if (event["ph"] != "X") continue;
    CHECK(event["args"]["step"] == 42);
    const int lane = event["tid"];
    if (event["cat"] == "communication") {
      const double begin = event["ts"], length = event["dur"];
      comm_lanes[lane].push_back({begin, begin + length});
      ++buckets[event["args"]["bucket"].get<int>()];
      CHECK(event["args"]["bytes"] == 100);
    } else {
      ++compute_lanes[lane];
      CHECK(!event["args"].contains("bucket"));
      if (event["name"] == "forward") CHECK(event["ts"].get<double>() == doctest::Approx(1000.123));
    }
  }
  CHECK(buckets == std::map<int, int>{{0, 1}, {1, 1}, {2, 1}});
  CHECK(compute_lanes == std::map<int, int>{{0, 3}});
  CHECK(marks == std::vector<std::string>{"bucket ready", "bucket launch"});
  CHECK(comm_lanes.size() == 2);
  for (const auto& [lane, slices] : comm_lanes) {
    CHECK(!compute_lanes.contains(lane));
    for (size_t i = 1; i < slices.size(); ++i) CHECK(slices[i].first >= slices[i - 1].second);
  }
}

TEST_CASE("no steps make an empty trace that still parses") {
  std::ostringstream out;
  write_chrome_trace(out, {}, 1);
  CHECK(nlohmann::json::parse(out.str())["traceEvents"].empty());
}

}  // namespace
}  // namespace lockstep
