#include "lockstep/report/compare.h"

#include "lockstep/base/error.h"
#include "lockstep/report/svg_chart.h"
#include "lockstep/tests/support/temp_dir.h"

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>

namespace lockstep::report {
namespace {

using Labels = std::vector<std::string>;
using Settings = std::vector<std::pair<std::string, std::string>>;

RunData run(const std::string& name, const Settings& settings, int64_t world = 1) {
  return {.path = "runs/" + name, .name = name, .settings = settings, .world_size = world};
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

const std::string kInfo =
    R"({"settings": {"lr": "0.1", "seed": 3, "trace": true}, "world_size": 2})";
const std::string kTrain =
    R"({"kind":"train","epoch":0,"step":10,"seconds":2.5,"epochs_done":0.5,"loss":1.25,)"
    R"("samples_per_second":640,"step_ms":50,"comm_exposed_ms":5})"
    "\n";
const std::string kEpoch =
    R"({"kind":"epoch","epoch":0,"step":20,"seconds":5,"test_accuracy":0.75,"test_loss":null})"
    "\n";

/// A run's folder in `dir`.
std::string folder(const testing::TempDir& dir, const std::string& name, const std::string& info,
                   const std::string& metrics) {
  const std::string path = dir / name;
  std::filesystem::create_directories(path);
  testing::write_file(path + "/run.json", info);
  testing::write_file(path + "/metrics.jsonl", metrics);
  return path;
}

TEST_CASE("a label says what differs, and nothing else") {
  CHECK(labels_of({run("a", {{"lr", "0.1"}, {"seed", "1"}}),
                   run("b", {{"lr", "0.2"}, {"seed", "1"}})}) == Labels{"lr=0.1", "lr=0.2"});
  // Files and the words of a start make no difference.
  CHECK(labels_of({run("a", {{"lr", "0.1"}, {"output-dir", "x"}}),
                   run("b", {{"lr", "0.1"}, {"output-dir", "y"}, {"resume", "auto"}})}) ==
        Labels{"a", "b"});
  CHECK(labels_of({run("a", {{"augment", ""}}), run("b", {{"augment", "true"}})}) ==
        Labels{"augment=off", "augment=on"});
  CHECK(labels_of({run("a", {{"comm-hook", ""}}), run("b", {{"comm-hook", "bf16"}})}) ==
        Labels{"comm-hook=none", "comm-hook=bf16"});
  CHECK(labels_of({run("a", {{"nproc", "1"}}, 1), run("b", {{"nproc", "4"}}, 4)}) ==
        Labels{"processes=1", "processes=4"});
  // A setting that an older run did not have.
  CHECK(labels_of({run("a", {}), run("b", {{"ema-decay", "0.9"}})}) ==
        Labels{"ema-decay=none", "ema-decay=0.9"});
  CHECK(labels_of({run("a", {{"lr", "0.1"}})}) == Labels{"a"});
}

TEST_CASE("a label too long gives way to the folder's name; equal ones are told apart") {
  CHECK(labels_of({run("a", {{"x", std::string(60, 'x')}}), run("b", {{"x", "y"}})}) ==
        Labels{"a", "x=y"});
  CHECK(labels_of({run("a", {{"lr", "1"}}), run("b", {{"lr", "1"}}), run("c", {{"lr", "2"}})}) ==
        Labels{"lr=1 (a)", "lr=1 (b)", "lr=2"});
  RunData other = run("a", {});
  other.path = "elsewhere/a";
  CHECK(labels_of({run("a", {}), other}) == Labels{"runs/a", "elsewhere/a"});
}

TEST_CASE("a folder is read back; numbers in run.json may be numbers or text") {
  const testing::TempDir dir;
  const RunData data = read_run(folder(dir, "one", kInfo, kTrain + kEpoch) + "/");
  CHECK(data.name == "one");
  CHECK(data.world_size == 2);
  CHECK(data.setting("lr") == "0.1");
  CHECK(data.setting("seed") == "3");
  CHECK(data.setting("trace") == "true");
  REQUIRE(data.lines.size() == 2);
  CHECK(data.lines[0]["loss"] == 1.25);
  CHECK(std::isnan(data.lines[1]["test_loss"]));
  CHECK(std::isnan(data.lines[1]["none"]));
  CHECK(compare_csv({data}) ==
        "run,label,kind,epoch,step,seconds,epochs_done,loss,samples_per_second,step_ms,"
        "comm_exposed_ms,test_accuracy,test_loss\r\n" +
            data.path + ",one,train,0,10,2.5,0.5,1.25,640,50,5,,\r\n" + data.path +
            ",one,epoch,0,20,5,,,,,,0.75,\r\n");
  const std::string table = compare_table({data});
  CHECK(table ==
        "run  epochs  accuracy     best   time  samples/s  exposed communication\n"
        "one       1   75.00 %  75.00 %  5.0 s        640          5.0 ms (10 %)\n");
}

TEST_CASE("what is no run's folder is refused with a reason") {
  const testing::TempDir dir;
  const auto refused = [&](const std::string& path, const std::string& words) {
    CHECK_THROWS_WITH_AS(read_run(path), doctest::Contains(words.c_str()), IoError);
  };
  refused(dir / "none", "got nothing of this name");
  testing::write_file(dir / "file", "");
  refused(dir / "file", "got a file");
  refused(dir.path().string(), "got one without run.json");
  testing::write_file(dir / "run.json", kInfo);
  refused(dir.path().string(), "got one without metrics.jsonl");
  refused(folder(dir, "cut", kInfo.substr(0, 30), ""), "no JSON, or is cut short");
  refused(folder(dir, "list", "[1]", ""), "other JSON");
  refused(folder(dir, "odd", R"({"settings": 1})", ""), "other JSON");
}

TEST_CASE("lines that are none are counted; a last one that was cut short is not") {
  const testing::TempDir dir;
  CHECK(read_run(folder(dir, "cut", kInfo, kTrain + kEpoch.substr(0, 20))).unreadable == 0);
  const RunData bad = read_run(folder(dir, "bad", kInfo, "no\n[]\n{\"kind\":1}\n" + kTrain));
  CHECK(bad.unreadable == 3);
  CHECK(bad.lines.size() == 1);
  CHECK(read_run(folder(dir, "empty", kInfo, "")).lines.empty());
}

TEST_CASE("a picture for what runs may hold: one epoch, no evaluation, NaN, nonsense") {
  const testing::TempDir dir;
  const std::string nonsense =
      R"({"kind":"train","epoch":-5,"seconds":1e300,"epochs_done":-1,"loss":1e308})"
      "\n"
      R"({"kind":"epoch","epoch":9e18,"seconds":null,"test_accuracy":-4})"
      "\n";
  const RunData whole = read_run(folder(dir, "whole", kInfo, kTrain + kEpoch));
  const RunData begun = read_run(folder(dir, "begun", kInfo, kTrain));
  const RunData odd = read_run(folder(dir, "odd<&>", kInfo, nonsense));
  const std::string svg = compare_svg({whole, begun, odd});
  CHECK(svg.starts_with("<svg "));
  CHECK(has(svg, ">whole</text>"));
  CHECK(has(svg, ">odd&lt;&amp;&gt;</text>"));
  CHECK(!has(svg, "nan"));
  CHECK(!has(svg, "inf"));
  CHECK(has(compare_svg({odd}), "no values"));
  CHECK(!has(compare_svg({whole}), "no values"));
  CHECK(has(compare_svg({begun}), "no values"));  // of the accuracy
}

TEST_CASE("as many runs as there are styles") {
  std::vector<RunData> runs;
  for (size_t i = 0; i < kLineStyles; ++i) {
    runs.push_back(run(str("r", i), {{"lr", str(i)}}));
    runs.back().lines.push_back({"epoch", {{"epoch", 0}, {"seconds", 1}, {"test_accuracy", 0.5}}});
  }
  const std::string svg = compare_svg(runs);
  CHECK(has(svg, ">lr=23</text>"));
  runs.push_back(run("more", {}));
  CHECK_THROWS_AS(compare_svg(runs), ArgumentError);
  CHECK_THROWS_AS(compare_svg({}), ArgumentError);
}

}  // namespace
}  // namespace lockstep::report
