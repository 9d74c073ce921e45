#include "lockstep/report/run_steps.h"

#include "lockstep/base/error.h"
#include "lockstep/tests/report/sample_run.h"
#include "lockstep/tests/report/trace_check.h"
#include "lockstep/tests/support/temp_dir.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <set>
#include <sstream>
#include <vector>

namespace lockstep::report {
namespace {

using testing::TempDir, testing::write_sample;

std::string trace_of(const RunSteps& run) {
  std::ostringstream out;
  write_merged_trace(out, run);
  return out.str();
}

TEST_CASE("all ranks in one trace, on one clock, in the format") {
  const TempDir dir;
  write_sample(dir.path(), {.ranks = 3, .late = 4, .clock_ahead = 3'000'000'000});
  const RunSteps run = read_steps(dir.path());
  CHECK(run.world_size == 3);
  CHECK(run.missing.empty());
  const std::string text = trace_of(run);
  CHECK(testing::trace_fault(text) == "");
  const auto json = nlohmann::json::parse(text);
  CHECK(json["distributedInfo"]["world_size"] == 3);
  std::set<int> ranks, buckets;
  std::vector<double> begins;  // of the first forward of each rank
  for (const auto& event : json["traceEvents"]) {
    if (ranks.insert(event["pid"].get<int>()).second) begins.push_back(-1);
    if (event["name"] == "forward" && begins.back() < 0) begins.back() = event["ts"];
    if (event["name"] == "communication") buckets.insert(event["args"]["bucket"].get<int>());
  }
  CHECK(ranks == std::set{0, 1, 2});
  CHECK(buckets == std::set{0, 1, 2});
  CHECK(begins == std::vector<double>(3, 2000));  // after 2 ms of data wait
}

TEST_CASE("the checker of traces sees faults") {
  const std::string names =
      R"({"ph":"M","name":"process_name","pid":0,"tid":0,"args":{"name":"rank 0"}},)"
      R"({"ph":"M","name":"thread_name","pid":0,"tid":0,"args":{"name":"compute 0"}},)"
      R"({"ph":"M","name":"thread_name","pid":0,"tid":1,"args":{"name":"communication 0"}},)";
  const auto slice = [](int lane, double begin, double length) {
    return nlohmann::json({{"ph", "X"},
                           {"name", "x"},
                           {"cat", "c"},
                           {"pid", 0},
                           {"tid", lane},
                           {"ts", begin},
                           {"dur", length},
                           {"args", nlohmann::json::object()}})
        .dump();
  };
  const auto fault = [&](const std::string& events) {
    return testing::trace_fault("{\"traceEvents\":[" + names + events + "]}");
  };
  CHECK(fault(slice(0, 0, 10) + "," + slice(0, 2, 3) + "," + slice(0, 10, 5)) == "");
  CHECK(fault(slice(0, 0, 10) + "," + slice(0, 2, 9)).starts_with("slices overlap on compute 0"));
  CHECK(fault(slice(1, 0, 10) + "," + slice(1, 2, 3)).starts_with("slices overlap"));
  CHECK(fault(slice(0, 0, -1)).starts_with("a slice without a length"));
  CHECK(fault(slice(2, 0, 1)) == "a lane without a name");
  CHECK(fault(R"({"ph":"i","name":"x","cat":"c","pid":0,"tid":0,"ts":1,"args":{}})")
            .starts_with("an instant without a scope"));
  CHECK(fault(R"({"ph":"B","name":"x","cat":"c","pid":0,"tid":0,"ts":1,"args":{}})") != "");
  CHECK(fault("3") != "");
  CHECK(testing::trace_fault("[") == "no JSON object");
}

TEST_CASE("ranks whose files are elsewhere are named, others shown") {
  const TempDir dir;
  write_sample(dir.path(), {.ranks = 4});
  std::filesystem::remove(dir / "steps.rank1.jsonl");
  testing::write_file(dir / "steps.rank9.jsonl.tmp", "");
  testing::write_file(dir / "steps.rankx.jsonl", "");
  const RunSteps run = read_steps(dir.path());
  CHECK(run.missing == std::vector{1});
  REQUIRE(run.ranks.size() == 3);
  CHECK(run.ranks[1].rank == 2);
  CHECK(testing::trace_fault(trace_of(run)) == "");
}

TEST_CASE("what is not there, or is none, is an error with a remedy") {
  const TempDir dir;
  CHECK_THROWS_WITH_AS(read_steps(dir / "no"), doctest::Contains("cannot be read"), IoError);
  CHECK_THROWS_WITH_AS(read_steps(dir.path()), doctest::Contains("--output-dir"), IoError);
  testing::write_file(dir / "steps.rank0.jsonl", "what?\n");
  CHECK_THROWS_WITH_AS(read_steps(dir.path()), doctest::Contains("wanted a step log"), IoError);
}

TEST_CASE("the steps that all ranks have events of") {
  const TempDir dir;
  write_sample(dir.path(), {.steps = 20});
  RunSteps run = read_steps(dir.path());
  CHECK(run.steps_with_events() == std::vector<int64_t>{7, 8, 9, 17, 18, 19});
  run.ranks[1].events.erase(run.ranks[1].events.begin());
  CHECK(run.steps_with_events() == std::vector<int64_t>{8, 9, 17, 18, 19});
  CHECK(events_of(run.ranks[1], 7) == nullptr);
  CHECK(events_of(run.ranks[1], 8)->step == 8);
}

}  // namespace
}  // namespace lockstep::report
