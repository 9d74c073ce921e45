// Ring logs of runs that have failed, and what is said of them.
#include "lockstep/report/diagnosis.h"

#include "lockstep/base/error.h"
#include "lockstep/tests/support/temp_dir.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include <fstream>

namespace lockstep::report {
namespace {

using Json = nlohmann::ordered_json;

// 2026-12-01 02:40:00 UTC.
constexpr int64_t kStart = 1'796'092'800'000'000;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

Json op(int64_t n, const char* call, const char* label, const char* state) {
  const int64_t at = kStart + n * 1'000'000;
  const bool done = std::string(state) == "done";
  return {{"sequence", n},
          {"collective", n},
          {"call", call},
          {"label", label},
          {"state", state},
          {"queued_us", at},
          {"begun_us", at + 1000},
          {"started_us", done ? Json(at + 2000) : Json()},
          {"finished_us", done ? Json(at + 3000) : Json(at + 4'001'000)}};
}

/// Of one of three ranks, `done` collectives and one that failed.
Json log(int rank, int64_t done) {
  Json ops = Json::array();
  for (int64_t n = 0; n < done; ++n) ops.push_back(op(n, "all_reduce(f32)", "bucket 0", "done"));
  ops.push_back(op(done, "all_reduce(f32)", "bucket 1", "failed"));
  return {{"kind", "ring"},
          {"format", 1},
          {"rank", rank},
          {"world_size", 3},
          {"host", "here"},
          {"process", 7},
          {"written_us", kStart + 60'000'000},
          {"error", "lost \u0007a\npeer"},
          {"heard", Json::array({{{"rank", 2}, {"text", "in no collective for 0.4 s"}}})},
          {"groups", Json::array({{{"name", "world"},
                                   {"ranks", {0, 1, 2}},
                                   {"failure", "why"},
                                   {"collectives", done},
                                   {"ops", ops}}})}};
}

void write(const std::string& dir, const std::string& name, const std::string& text) {
  std::ofstream(dir + "/" + name) << text;
}

RingLogs read(const std::vector<Json>& logs) {
  const testing::TempDir dir;
  for (const Json& one : logs) {
    write(dir.path().string(), str("ring.rank", one["rank"].get<int>(), ".json"), one.dump());
  }
  RingLogs run = read_ring_logs(dir.path().string());
  run.directory = "run";
  return run;
}

TEST_CASE("diagnose: two ranks wait for one that has left no log") {
  const RingLogs run = read({log(0, 2), log(1, 2)});
  CHECK(run.missing == std::vector<int>{2});
  const auto waits = waits_of(run);
  REQUIRE(waits.size() == 1);
  CHECK(waits[0].collective == 2);
  CHECK(waits[0].waiting == std::vector<int>{0, 1});
  CHECK(waits[0].awaited == std::vector<int>{2});
  CHECK(diagnosis_page(run) ==
        "run: ring logs of ranks 0 and 1 of a run of 3; times are UTC\n"
        "No log of rank 2: killed, or on another host (copy its ring.rankN.json here)\n"
        "\n"
        "Ranks 0 and 1 waited for rank 2 in collective 2 of world, since 02:40:02.001:\n"
        "  all_reduce(f32) [bucket 1]\n"
        "  rank 0  was in it from 02:40:02.001, for 4.00 s\n"
        "  rank 1  was in it from 02:40:02.001, for 4.00 s\n"
        "  rank 2  has left no log; rank 0 last heard of it: in no collective for 0.4 s\n"
        "\n"
        "world: the logs agree on the calls of the collectives 0 to 2\n"
        "\n"
        "What each rank failed of:\n"
        "  rank 0  lost ?a?peer\n"
        "  rank 1  lost ?a?peer\n");
}

TEST_CASE("diagnose: a rank that was elsewhere, one that is ahead, a call that differs") {
  Json elsewhere = log(2, 1);
  elsewhere["groups"][0]["ops"].erase(1);
  elsewhere["groups"][0]["ops"][0]["label"] = "evaluation";
  Json ahead = log(1, 2);
  ahead["groups"][0]["ops"][1]["call"] = "barrier()";
  const RingLogs run = read({log(0, 1), ahead, elsewhere});
  const auto waits = waits_of(run);
  REQUIRE(waits.size() == 2);
  CHECK(waits[0].waiting == std::vector<int>{0});
  CHECK(waits[0].awaited == std::vector<int>{2});
  CHECK(waits[1].waiting == std::vector<int>{1});
  CHECK(waits[1].awaited == std::vector<int>{0, 2});
  const std::string page = diagnosis_page(run);
  CHECK(contains(page,
                 "rank 2  was in no collective; its last, collective 0, all_reduce(f32) "
                 "[evaluation], ended at 02:40:00.003"));
  CHECK(contains(page,
                 "rank 0  was in collective 1, all_reduce(f32) [bucket 1], since "
                 "02:40:01.001"));
  CHECK(contains(page,
                 "world: the calls differ from collective 1 on:\n"
                 "  rank 0  all_reduce(f32) [bucket 1]\n"
                 "  rank 1  barrier() [bucket 0]\n"));
}

TEST_CASE("diagnose: nobody waits; several groups; letters are no collectives") {
  Json idle = log(0, 1);
  Json& ops = idle["groups"][0]["ops"];
  ops[1]["state"] = "failed";
  ops[1]["begun_us"] = nullptr;
  Json other = idle["groups"][0];
  other["name"] = "world/split0/0";
  other["ops"][0]["collective"] = nullptr;
  idle["groups"].push_back(other);
  const std::string page = diagnosis_page(read({idle}));
  CHECK(contains(page, "No rank was in a collective."));
  CHECK(contains(page, "world: no two logs have a collective in common"));
  CHECK(contains(page, "world/split0/0: no two logs"));
}

std::string refused(const Json& json) {
  try {
    parse_ring_log(json.dump(), "f");
  } catch (const IoError& e) {
    return e.what();
  }
  return "taken";
}

TEST_CASE("ring log: what is none is refused with what was wanted and what was got") {
  CHECK(refused(log(0, 1)) == "taken");
  CHECK_THROWS_WITH_AS(parse_ring_log("{", "f"), "f: wanted a ring log, got what is no JSON",
                       IoError);
  CHECK(refused({{"kind", "start"}}) == "f: kind: wanted \"ring\", got \"start\"");
  CHECK(refused(Json::array()) == "f: wanted an object, got an array");
  const auto with = [](const char* pointer, const Json& value) {
    Json json = log(0, 1);
    json[Json::json_pointer(pointer)] = value;
    return refused(json);
  };
  CHECK(with("/rank", 3) == "f: rank: wanted a rank below world_size, got 3");
  CHECK(with("/rank", -1) == "f: rank: wanted a whole number from 0 to 1048576, got -1");
  CHECK(with("/format", 2) == "f: format: wanted a whole number from 1 to 1, got 2");
  CHECK(with("/groups/0/ops/1/state", "odd") ==
        "f: groups[0]: ops[1]: state: wanted queued, waiting, moving, done or failed, got \"odd\"");
  CHECK(contains(with("/groups/0/ops/1/begun_us", 1e300), "ops[1]: begun_us: wanted a whole"));
  CHECK(contains(with("/groups/0/ops/1/begun_us", uint64_t{1} << 63), "got 9223372036854775808"));
  CHECK(contains(with("/groups/0/ranks", "all"), "ranks: wanted an array, got \"all\""));
  Json none = log(0, 1);
  none.erase("heard");
  CHECK(refused(none) == "f: wanted \"heard\", got none");
}

TEST_CASE("ring logs: a folder without any, of two runs, with a name that is another's") {
  const testing::TempDir dir;
  CHECK_THROWS_WITH_AS(read_ring_logs(dir.path().string() + "/none"),
                       doctest::Contains("cannot be read: No such file"), IoError);
  CHECK_THROWS_WITH_AS(read_ring_logs(dir.path().string()),
                       doctest::Contains("wanted ring.rankN.json, got none"), IoError);
  write(dir.path().string(), "ring.rank0.json", log(1, 0).dump());
  CHECK_THROWS_WITH_AS(read_ring_logs(dir.path().string()),
                       doctest::Contains("wanted the log of rank 0, got that of rank 1"), IoError);
  write(dir.path().string(), "ring.rank0.json", log(0, 0).dump());
  Json two = log(1, 0);
  two["world_size"] = 2;
  write(dir.path().string(), "ring.rank1.json", two.dump());
  write(dir.path().string(), "ring.rankx.json", "");
  CHECK_THROWS_WITH_AS(read_ring_logs(dir.path().string()),
                       doctest::Contains("wanted the log of a run of 3 ranks, got one of 2"),
                       IoError);
}

}  // namespace
}  // namespace lockstep::report
