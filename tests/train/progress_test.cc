#include "lockstep/train/progress.h"

#include <doctest/doctest.h>

#include <cstdlib>

namespace lockstep {
namespace {

StepSummary summary(double forward, double hidden, double exposed, double wall) {
  StepSummary s;
  s.ms[static_cast<size_t>(Activity::kForward)] = forward;
  s.comm_hidden = hidden;
  s.comm_exposed = exposed;
  s.comm_total = hidden + exposed;
  s.wall = wall;
  return s;
}

TEST_CASE("means and quantiles") {
  StepTimes times(10);
  CHECK(times.quantile(StepTimes::kForward, 0.5) == 0);
  CHECK(times.mean(StepTimes::kForward, 5) == 0);
  for (int i = 1; i <= 25; ++i) times.add(summary(i, 0, 0, 0));  // keeps 16..25
  CHECK(times.size() == 10);
  CHECK(times.quantile(StepTimes::kForward, 0.5) == 20);
  CHECK(times.quantile(StepTimes::kForward, 0.9) == 24);
  CHECK(times.quantile(StepTimes::kForward, 1.0) == 25);
  CHECK(times.mean(StepTimes::kForward, 2) == doctest::Approx(24.5));
  CHECK(times.mean(StepTimes::kForward, 100) == doctest::Approx(20.5));
}

TEST_CASE("how communication is put") {
  StepTimes times;
  times.add(summary(10, 37, 4, 200));
  CHECK(times.comm_phrase(1) == "comm 41 ms, 37 hidden, 4.0 exposed (2 %)");
  CHECK(StepTimes().comm_phrase(1) == "comm 0.00 ms, 0.00 hidden, 0.00 exposed (0 %)");
  StepSummary sent = summary(10, 37, 4, 200);
  sent.comm_bytes = 20'757'048;
  for (int i = 0; i < 3; ++i) times.add(sent);
  CHECK(times.mean(StepTimes::kBytes, 3) == 20'757'048);
  const std::string table = times.table();
  CHECK(table.find("gradients sent, MB           20.757     20.757\n") != std::string::npos);
  for (const char* row : {"forward", "backward", "exposed communication", "optimizer", "data wait",
                          "hidden communication", "median", "p90"}) {
    CHECK(table.find(row) != std::string::npos);
  }
}

TEST_CASE("waiting for data is worth a word above 5 % of a step") {
  const auto table_of = [](double wait_ms) {
    StepTimes times;
    for (int i = 0; i < 10; ++i) {
      StepSummary step = summary(10, 0, 0, 100);
      step.ms[static_cast<size_t>(Activity::kDataWait)] =
          i == 0 ? 10 * wait_ms : 0;  // one step waits for all
      times.add(step);
    }
    return times.table();
  };
  CHECK(table_of(12).find("input-bound: data wait is 12 % of a step; more --workers") !=
        std::string::npos);
  CHECK(table_of(4.9).find("input-bound") == std::string::npos);
  CHECK(StepTimes().table().find("input-bound") == std::string::npos);
}

TEST_CASE("the progress line") {
  const std::string line = format_progress({.epoch = 1,
                                            .epochs = 10,
                                            .step = 40,
                                            .steps = 230,
                                            .loss = 0.41234,
                                            .accuracy = 0.875,
                                            .samples_per_second = 5120.4,
                                            .seconds_left = 42},
                                           "comm 1 ms");
  CHECK(line == "epoch 2/10 step 40/230  loss 0.4123  acc 87.50 %  5120/s  ETA 0:42  comm 1 ms");
  CHECK(format_duration(3723) == "1:02:03");
  CHECK(format_duration(59.6) == "1:00");
  CHECK(format_duration(-1) == "?");
  CHECK(format_duration(1.0 / 0.0) == "?");
}

TEST_CASE("plain lines where there is no terminal") {
  char* text = nullptr;
  size_t size = 0;
  std::FILE* file = ::open_memstream(&text, &size);
  Progress progress(file);
  progress.update("one");
  progress.say("two");
  Progress(nullptr).say("nothing");
  std::fclose(file);
  CHECK(std::string(text, size) == "one\ntwo\n");
  std::free(text);
}

}  // namespace
}  // namespace lockstep
