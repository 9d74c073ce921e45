#include "lockstep/bench/charts.h"

#include "lockstep/base/error.h"

#include <doctest/doctest.h>

#include <string>

namespace lockstep::bench {
namespace {

WayCost cost(DdpMode mode, double cap, double wall) {
  WayCost c{.way = {.mode = mode, .cap_mb = cap}};
  c.wall = wall;
  c.forward = 30;
  c.backward = 60;
  return c;
}

int count(const std::string& text, const std::string& what) {
  int n = 0;
  for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++n;
  return n;
}

TEST_CASE("a bar for each way, as long as its step") {
  const std::string svg =
      step_chart("a <title>", {cost(DdpMode::kLocal, 25, 100), cost(DdpMode::kNaive, 25, 200)}, {});
  CHECK(svg.find("a &lt;title&gt;") != svg.npos);
  CHECK(svg.find(">local<") != svg.npos);
  CHECK(svg.find(">200 ms<") != svg.npos);
  CHECK(count(svg, "fill:#2f6db5") == 3);  // the legend's and two backwards
  // 860 - 200 - 16 - 80 pixels are 200 ms, 60 ms of them backward.
  CHECK(count(svg, "width=\"169.2\"") == 2);
}

TEST_CASE("a step by bucket size: also for one, and for none that is larger than 0") {
  const auto caps = {cost(DdpMode::kOverlapped, 0, 150), cost(DdpMode::kOverlapped, 2.5, 120)};
  const std::string svg = step_chart("x", {cost(DdpMode::kLocal, 25, 100)}, caps);
  CHECK(svg.find(">2.5<") != svg.npos);
  CHECK(svg.find("nan") == svg.npos);
  const std::string one =
      step_chart("x", {cost(DdpMode::kLocal, 0, 0)}, {cost(DdpMode::kOverlapped, 0, 0)});
  CHECK(one.find("nan") == one.npos);
  CHECK(one.find("inf") == one.npos);
}

TEST_CASE("a sweep") {
  const auto point = [](int64_t size, double seconds) {
    return SweepPoint{.size = size, .seconds = seconds};
  };
  const std::string svg = sweep_chart("sums", {point(1000, 3), point(1'000'000, 0.02)});
  CHECK(svg.find("sums, seconds") != svg.npos);
  CHECK(sweep_chart("one", {point(7, 0)}).find("nan") == std::string::npos);
  CHECK_THROWS_AS(sweep_chart("none", {}), Error);
}

}  // namespace
}  // namespace lockstep::bench
