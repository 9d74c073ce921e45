#include "lockstep/report/page.h"

#include "lockstep/base/error.h"
#include "lockstep/report/html.h"
#include "lockstep/report/timeline_data.h"
#include "lockstep/tests/report/sample_run.h"
#include "lockstep/tests/support/regex.h"
#include "lockstep/tests/support/temp_dir.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <filesystem>

namespace lockstep::report {
namespace {

using testing::TempDir, testing::write_sample;

std::string page_of(const std::string& dir) {
  return report_page(read_run(dir), read_steps(dir), read_plan_names(dir));
}

std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  const size_t from = text.find(begin);
  REQUIRE(from != text.npos);
  const size_t at = from + begin.size();
  return text.substr(at, text.find(end, at) - at);
}

void has(const std::string& text, const std::string& part) {
  CHECK_MESSAGE(text.find(part) != text.npos, "wanted ", part);
}

TEST_CASE("the page is whole, and asks the network for nothing") {
  const TempDir dir;
  write_sample(dir.path(), {.ranks = 3, .late = 20});
  const std::string page = page_of(dir.path());
  has(page, "resnet18 on digits · 3 ranks");
  has(page, "Rank 2 is late");
  has(page, "add up to a typical step's wall time within 0.00 %");
  has(page, ">layer.weight<");
  has(page, "rank 2</text>");
  CHECK(page.find("{{") == page.npos);
  // Nothing that is fetched: the only address is a namespace, in quotes.
  const std::regex address(R"((src|href)\s*=|url\((?!#)|https?://|@import)");
  for (auto at = std::sregex_iterator(page.begin(), page.end(), address);
       at != std::sregex_iterator(); ++at) {
    const std::string around = page.substr(static_cast<size_t>(at->position()), 40);
    const bool harmless =
        around.starts_with("href=\"data:,\"") || around.starts_with("http://www.w3.org/2000/svg\"");
    CHECK_MESSAGE(harmless, around);
  }
}

TEST_CASE("the data of the timeline") {
  const TempDir dir;
  write_sample(dir.path(), {.ranks = 2, .clock_ahead = 5'000'000'000});
  const auto json = nlohmann::json::parse(
      between(page_of(dir.path()), "<script type=\"application/json\" id=\"data\">", "</script>"));
  CHECK(json["ranks"] == nlohmann::json({0, 1}));
  CHECK(json["buckets"].size() == 3);
  CHECK(json["steps"].size() == 12);
  CHECK(json["steps"].back() == 39);
  for (const char* rank : {"0", "1"}) {
    const auto& spans = json["spans"][rank]["39"];
    CHECK(spans[1] == nlohmann::json({"forward", -1, 2000, 32000, 0, 0}));
  }
}

TEST_CASE("what comes from files cannot break out") {
  const TempDir dir;
  const std::string evil = "</script><script>alert(1)</script>\"'&\x01";
  write_sample(dir.path(), {.model = evil, .parameter = evil});
  const std::string page = page_of(dir.path());
  CHECK(page.find("alert(1)</script>") == page.npos);
  has(page, "&lt;/script&gt;&lt;script&gt;alert(1)");
  std::regex script("<script");
  CHECK(std::distance(std::sregex_iterator(page.begin(), page.end(), script),
                      std::sregex_iterator()) == 2);
  CHECK(fill("{{a}}-{{b}}", {{"a", "{{b}}"}, {"b", "{{a}}"}}) == "{{b}}-{{a}}");
  CHECK_THROWS_AS(fill("{{c}}", {}), ArgumentError);
}

TEST_CASE("a page of a long run with many buckets stays small") {
  const TempDir dir;
  write_sample(dir.path(), {.ranks = 2,
                            .steps = 10'000,
                            .buckets = 200,
                            .transfer = 0.2,
                            .parameter = "bert.encoder.layer.11.attention.output.dense.weight"});
  const std::string page = page_of(dir.path());
  CHECK(page.size() < 2'000'000);
  has(page, "The timeline shows ");
}

TEST_CASE("what is missing is said") {
  const TempDir dir;
  write_sample(dir.path(), {.ranks = 4, .ends = false});
  std::filesystem::remove(dir / "steps.rank3.jsonl");
  std::filesystem::remove(dir / "bucket_plan.json");
  const std::string page = page_of(dir.path());
  has(page, "The step logs of 1 of 4 ranks are not in this folder (3)");
  has(page, "has not ended as it was meant to");
  testing::write_file(dir / "bucket_plan.json", "{\"buckets\":[{\"params\":3}]}");
  CHECK(read_plan_names(dir.path()).empty());
}

TEST_CASE("a run that was killed as it began, and one alone, have pages, too") {
  const TempDir dir;
  write_sample(dir.path(), {.ranks = 2, .steps = 0, .ends = false});
  has(page_of(dir.path()), "No step was recorded.");
  const TempDir alone;
  write_sample(alone.path(), {.ranks = 1});
  has(page_of(alone.path()), "No bucket travelled in this run.");
}

TEST_CASE("parts that miss a step's time are a warning on the page") {
  const TempDir dir;
  write_sample(dir.path(), {.ranks = 1});
  RunSteps steps = read_steps(dir.path());
  for (StepRecord& step : steps.ranks[0].steps) step.parts[0] += 2;
  const auto ranks = ranks_of(steps);
  const std::string note = notes_of(read_run(dir.path()), steps, ranks)[0];
  has(note, "Beware: ");
  has(note, "miss a typical step's wall time by 2.00 %");
}

}  // namespace
}  // namespace lockstep::report
