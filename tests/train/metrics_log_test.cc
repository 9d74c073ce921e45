#include "lockstep/train/metrics_log.h"

#include "lockstep/base/error.h"
#include "lockstep/tests/support/temp_dir.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <fstream>
#include <vector>

namespace lockstep {
namespace {

std::vector<nlohmann::json> read_lines(const std::string& path) {
  std::vector<nlohmann::json> lines;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

TEST_CASE("a resumed run's file holds each step and each epoch once") {
  const testing::TempDir dir;
  const std::string path = dir / "metrics.jsonl";
  {
    MetricsLog log(path, Position{});
    log.log_interval(0, 10, {{"loss", 2.0}});
    log.log_interval(0, 20, {{"loss", 1.5}});
    log.log_epoch(0, 20, {{"test_accuracy", 0.5}});
    log.log_interval(1, 30, {{"loss", 1.0}});
    log.log_interval(1, 40, {{"loss", 0.9}});
    log.log_epoch(1, 40, {{"test_accuracy", 0.7}});
  }
  std::ofstream(path, std::ios::app) << R"({"kind":7,"step":99})"
                                     << "\n"                        // damaged
                                     << R"({"kind":"train","epo)";  // killed in mid-line
  {
    MetricsLog log(path, Position{.step = 30, .epoch = 1, .batch = 10});
    log.log_interval(1, 40, {{"loss", 0.8}});
  }
  const auto lines = read_lines(path);
  REQUIRE(lines.size() == 5);
  CHECK(lines[2]["kind"] == "epoch");
  CHECK(lines[3]["step"] == 30);
  CHECK(lines[4]["step"] == 40);
  CHECK(lines[4]["loss"] == 0.8);
}

TEST_CASE("an epoch that was trained but not evaluated loses its line, for it is evaluated again") {
  const testing::TempDir dir;
  const std::string path = dir / "metrics.jsonl";
  {
    MetricsLog log(path, Position{});
    log.log_interval(0, 20, {});
    log.log_epoch(0, 20, {});
  }
  { MetricsLog log(path, Position{.step = 20, .epoch = 0, .batch = 20}); }
  CHECK(read_lines(path).size() == 1);
  { MetricsLog log(path, Position{}); }
  CHECK(read_lines(path).empty());
}

TEST_CASE("time goes on from the last line that a resumed run keeps") {
  const testing::TempDir dir;
  const std::string path = dir / "metrics.jsonl";
  testing::write_file(path,
                      "{\"kind\":\"train\",\"epoch\":0,\"step\":1,\"seconds\":1000}\n"
                      "{\"kind\":\"train\",\"epoch\":0,\"step\":2,\"seconds\":2000}\n");
  MetricsLog log(path, Position{.step = 1, .epoch = 0, .batch = 1});
  CHECK(log.kept().find("1000}\n") == log.kept().size() - 6);
  const auto line = nlohmann::json::parse(log.log_interval(0, 2, {}));
  CHECK(line["seconds"].get<double>() >= 1000);
  CHECK(line["seconds"].get<double>() < 1900);
  CHECK(line["unix_time"].get<double>() > 1.7e9);
  CHECK(read_lines(path)[1] == line);
}

TEST_CASE("what is not a number becomes null, and a missing directory an error") {
  const testing::TempDir dir;
  const std::string path = dir / "metrics.jsonl";
  {
    MetricsLog log(path, Position{});
    log.log_interval(0, 1, {{"loss", std::nan("")}});
  }
  CHECK(read_lines(path)[0]["loss"].is_null());
  CHECK_THROWS_AS(MetricsLog(dir / "no/such/metrics.jsonl", Position{}), IoError);
}

}  // namespace
}  // namespace lockstep
