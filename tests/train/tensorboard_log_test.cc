#include "lockstep/train/tensorboard_log.h"

#include "lockstep/tests/support/temp_dir.h"
#include "lockstep/train/run_log.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <vector>

namespace lockstep {
namespace {

/// The payloads of a file's records; a frame that is wrong ends the list with "broken".
std::vector<std::string> payloads(std::string_view file) {
  std::vector<std::string> all;
  while (!file.empty()) {
    const auto length = static_cast<size_t>(static_cast<unsigned char>(file[0]));  // all are short
    const std::string_view payload = file.substr(12, length);
    if (!file.starts_with(tf_record(payload))) return all.push_back("broken"), all;
    all.emplace_back(payload);
    file.remove_prefix(12 + length + 4);
  }
  return all;
}

std::vector<std::string> event_files(const std::filesystem::path& dir) {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(dir)) {
    if (TensorboardLog::made(entry.path().filename().string())) found.push_back(entry.path());
  }
  return found;
}

std::string the_file(const std::filesystem::path& dir) {
  auto found = event_files(dir);
  REQUIRE(!found.empty());
  std::sort(found.begin(), found.end());
  REQUIRE(found.size() <= 2);
  if (found.size() == 2) CHECK(std::filesystem::file_size(found[0]) == 0);
  return testing::read_text(found.back());
}

TEST_CASE("a line becomes a record with its time, its step and what has a tag") {
  const testing::TempDir dir;
  TensorboardLog log(dir.path(), "");
  const size_t before = the_file(dir.path()).size();
  log.add(
      R"({"kind":"train","epoch":0,"step":7,"unix_time":12.5,"loss":0.5,"forward_ms":3,"lr":null})");
  log.add(R"({"kind":"train","step":1e300,"loss":0.5})");  // damaged
  const std::vector<EventScalar> wanted = {{"train/loss", 0.5f}};
  CHECK(the_file(dir.path()).substr(before) == event_scalars(12.5, 7, wanted));
  log.add("no JSON");
  log.add(R"({"kind":"train","step":8,"forward_ms":3})");
  CHECK(payloads(the_file(dir.path())).size() == 3);
}

TEST_CASE(
    "a resumed run's events hold each step once, and earlier starts' files are empty or gone") {
  const testing::TempDir temp;
  const RunDir dir({.path = temp.path().string()});
  testing::write_file(temp / "events.out.tfevents.1.host.1.lockstep", "of an earlier start");
  testing::write_file(temp / "events.out.tfevents.0.host.1.lockstep", "of one before");
  testing::write_file(temp / "events.out.tfevents.1.host.1.0", "of somebody else");
  {
    RunLog log(dir, Position{});
    log.log_interval(0, 10, {{"loss", 2.0}});
    log.log_epoch(0, 10, {{"test_accuracy", 0.5}});
    log.log_interval(1, 20, {{"loss", 1.0}});
  }
  CHECK(payloads(the_file(temp.path())).size() == 2 + 3);
  {
    RunLog log(dir, Position{.step = 10, .epoch = 1, .batch = 0});
    log.log_interval(1, 20, {{"loss", 0.9}});
  }
  const auto records = payloads(the_file(temp.path()));
  REQUIRE(records.size() == 2 + 3);
  CHECK(records[1].ends_with(std::string("\x3a\x02\x08\x01", 4)));  // session_log { status: START }
  CHECK(records[3].find("test/accuracy") != std::string::npos);
  CHECK(records[4].find("train/loss") != std::string::npos);
  CHECK(records[4].ends_with(std::string("\x15\x66\x66\x66\x3f", 5)));  // 0.9f
  CHECK(testing::read_text(temp / "events.out.tfevents.1.host.1.0") == "of somebody else");
}

}  // namespace
}  // namespace lockstep
