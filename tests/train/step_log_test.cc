#include "lockstep/train/step_log.h"

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/distributed/comm/thread_group.h"
#include "lockstep/tests/support/temp_dir.h"
#include "lockstep/train/read_step_log.h"

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

namespace lockstep {
namespace {

constexpr int64_t kMs = 1'000'000;

StepEvents events_of(int64_t step, int buckets) {
  const int64_t begin = step * 200 * kMs;
  StepEvents events{.step = step, .begin_ns = begin, .end_ns = begin + 100 * kMs, .events = {}};
  events.events.push_back({{Activity::kForward, -1, begin, begin + 40 * kMs, 0}, 0});
  events.events.push_back({{Activity::kBackward, -1, begin + 40 * kMs, events.end_ns, 0}, 0});
  for (int b = 0; b < buckets; ++b) {
    const int64_t at = begin + (50 + b + step % 3) * kMs;
    events.events.push_back({{Activity::kBucketReady, b, at, at, 0}, 0});
    events.events.push_back({{Activity::kCommunication, b, at + kMs, at + 2 * kMs, 100}, 1});
  }
  return events;
}

void add_steps(StepLog& log, int64_t first, int64_t end, int buckets = 2) {
  std::vector<StepEvents> last;
  for (int64_t step = first; step < end; ++step) {
    last.push_back(events_of(step, buckets));
    log.add(summarize(last.back()), last.back());
  }
  last.erase(last.begin(), last.end() - std::min<std::ptrdiff_t>(3, std::ssize(last)));
  log.end_interval(end / 10, last);
}

TEST_CASE("what is written is what is read") {
  const testing::TempDir dir;
  {
    StepLog log({.directory = dir.path(),
                 .rank = 2,
                 .world_size = 4,
                 .clock = {.offset_ns = 70, .error_ns = 5, .at_ns = 1}});
    add_steps(log, 0, 10);
    add_steps(log, 10, 11, 3);
    log.end({.offset_ns = 71, .error_ns = 6, .at_ns = 100});
  }
  const RankLog log = read_step_log(step_log_file(dir.path(), 2), 2);
  CHECK(log.world_size == 4);
  CHECK(!log.host.empty());
  CHECK(log.ended);
  CHECK(log.starts == 1);
  CHECK(log.unreadable == 0);
  REQUIRE(log.clocks.size() == 2);
  CHECK(log.clocks[0].offset_ns == 70);
  CHECK(log.clocks[1].error_ns == 6);
  REQUIRE(log.steps.size() == 11);
  CHECK(log.steps[4].step == 4);
  CHECK(log.steps[4].wall == doctest::Approx(100));
  CHECK(log.steps[4].of(StepPart::kForward) == doctest::Approx(40));
  CHECK(log.steps[4].hidden == doctest::Approx(2));
  CHECK(log.steps[4].bytes == 200);
  REQUIRE(log.buckets.size() == 2);
  CHECK(log.buckets[0].step == 9);
  REQUIRE(log.buckets[0].buckets.size() == 2);
  CHECK(log.buckets[0].buckets[1].ready == doctest::Approx(12));  // 11, 12, 13 ...
  CHECK(log.buckets[0].buckets[1].bytes == 100);
  CHECK(std::isnan(log.buckets[0].buckets[1].launch));
  CHECK(log.buckets[1].buckets.size() == 3);
  REQUIRE(log.events.size() == 4);
  const StepEvents wanted = events_of(8, 2);
  CHECK(log.events[1].step == 8);
  CHECK(log.events[1].begin_ns == wanted.begin_ns);
  REQUIRE(log.events[1].events.size() == wanted.events.size());
  for (size_t i = 0; i < wanted.events.size(); ++i) {
    const StepEvents::Event &read = log.events[1].events[i], &written = wanted.events[i];
    CHECK(read.span.activity == written.span.activity);
    CHECK(read.span.id == written.span.id);
    CHECK(read.span.begin_ns == written.span.begin_ns);
    CHECK(read.span.end_ns == written.span.end_ns);
    CHECK(read.span.bytes == written.span.bytes);
    CHECK(read.thread == written.thread);
  }
}

TEST_CASE("a killed run keeps its intervals, and a resumed one holds each step once") {
  const testing::TempDir dir;
  const std::string path = step_log_file(dir.path(), 0);
  {
    StepLog log({.directory = dir.path()});
    add_steps(log, 0, 10);
    add_steps(log, 10, 20);
    const StepEvents lost = events_of(20, 2);
    log.add(summarize(lost), lost);
  }
  std::ofstream(path, std::ios::app) << "[20,1";  // killed in mid-line
  RankLog log = read_step_log(path, 0);
  CHECK(log.steps.size() == 20);
  CHECK(!log.ended);
  CHECK(log.unreadable == 0);
  {
    StepLog again({.directory = dir.path(), .start = 15});
    add_steps(again, 15, 20);
    again.end({});
  }
  log = read_step_log(path, 0);
  REQUIRE(log.steps.size() == 20);
  for (size_t i = 0; i < 20; ++i) CHECK(log.steps[i].step == static_cast<int64_t>(i));
  CHECK(log.starts == 2);
  CHECK(log.ended);
  { const StepLog longer({.directory = dir.path(), .start = 20}); }
  CHECK(!read_step_log(path, 0).ended);
  { const StepLog afresh({.directory = dir.path()}); }
  CHECK(read_step_log(path, 0).steps.empty());
}

TEST_CASE("the longer a run, the sparser its lines") {
  int64_t kept = 0, at_1000 = 0;
  for (int64_t i = 0; i < 100'000; ++i) {
    if (i == 1000) at_1000 = kept;
    kept += keeps_line(i, 100) ? 1 : 0;
  }
  CHECK(at_1000 < 100 * 5);
  CHECK(kept < 100 * 11);
  CHECK(kept > 100 * 9);
  for (int64_t i = 0; i < 200; ++i) CHECK(keeps_line(i, 100));
  CHECK(!keeps_line(201, 100));
}

TEST_CASE("what cannot be written is a warning, once, and the run goes on") {
  const testing::TempDir dir;
  testing::write_file(dir / "file", "");
  std::string said;
  const LogSink before =
      set_log_sink([&](LogLevel, std::string_view text) { said += str(text, "\n"); });
  StepLog log({.directory = dir / "file"});
  add_steps(log, 0, 10);
  log.end({});
  set_log_sink(before);
  CHECK(std::count(said.begin(), said.end(), '\n') == 1);
  CHECK(said.find("lockstep report will lack it") != said.npos);
}

TEST_CASE("damaged lines are counted, and what is no step log is refused") {
  const testing::TempDir dir;
  const std::string path = dir / "steps.rank0.jsonl";
  const std::string start =
      R"({"kind":"start","format":1,"step":0,"rank":0,"world_size":2,"host":"a",)"
      R"("clock_offset_ns":0,"clock_error_ns":0,"at_ns":0})"
      "\n";
  for (const char* bad : {"[1,2]", "nonsense", "[0,1,1,1,1,1,1,1,1,1,\"x\"]", "{\"kind\":\"new\"}",
                          "{\"kind\":\"buckets\",\"step\":1,\"rows\":[[1]]}", "5",
                          "{\"kind\":\"events\",\"step\":1,\"begin_ns\":9223372036854775807,"
                          "\"end_ns\":0,\"rows\":[]}",
                          "{\"kind\":3}", "[1e999,0,0,0,0,0,0,0,0,0,0]"}) {
    testing::write_file(path, start + bad + "\n[7,1,1,0,0,0,0,0,0,2,5]\n");
    const RankLog log = read_step_log(path, 0);
    CHECK_MESSAGE(log.unreadable == 1, bad);
    REQUIRE(log.steps.size() == 1);
    CHECK(log.steps[0].of(StepPart::kGraph) == 0);  // of before there were graphs
    CHECK(log.steps[0].hidden == 2);
    CHECK(log.steps[0].bytes == 5);
  }
  for (const std::string& contents : {std::string(), std::string("hello\n"),
                                      std::string("{\"kind\":\"start\",\"format\":2}\n")}) {
    testing::write_file(path, contents);
    CHECK_THROWS_AS(read_step_log(path, 0), IoError);
  }
}

TEST_CASE("ranks of one host read one clock, and the estimate says so within its error") {
  spawn(3, [](ProcessGroup& group) {
    const ClockOffset clock = measure_clock_offset(group);
    CHECK(std::abs(clock.offset_ns) <= clock.error_ns);
    CHECK((group.rank() == 0) == (clock.error_ns == 0));
    CHECK(clock.at_ns > 0);
  });
}

TEST_CASE("an offset between two measurements lies between theirs") {
  const std::vector<ClockOffset> clocks = {{1000, 10, 0}, {3000, 10, 1'000'000}};
  CHECK(clock_offset_at(clocks, -5) == 1000);
  CHECK(clock_offset_at(clocks, 500'000) == 2000);
  CHECK(clock_offset_at(clocks, 2'000'000) == 3000);
  CHECK(clock_offset_at({{7, 8, 0}}, 5) == 0);
  CHECK(clock_offset_at({}, 5) == 0);
}

}  // namespace
}  // namespace lockstep
