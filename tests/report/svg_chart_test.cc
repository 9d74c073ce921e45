#include "lockstep/report/svg_chart.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <set>

namespace lockstep::report {
namespace {

using Names = std::vector<std::string>;

TEST_CASE("ticks are at round numbers, and hold the range") {
  CHECK(nice_axis(0.13, 2.31, 5).names == Names{"0.0", "0.5", "1.0", "1.5", "2.0", "2.5"});
  CHECK(nice_axis(91, 99.7, 5).names == Names{"90", "92", "94", "96", "98", "100"});
  CHECK(nice_axis(-3, 4, 4).names == Names{"-4", "-2", "0", "2", "4"});
  CHECK(nice_axis(7, 7, 5).low < 7);
  CHECK(nice_axis(7, 7, 5).high > 7);
  CHECK(axis_from_zero(13.2, 6).names == Names{"0", "5", "10"});
  CHECK(axis_from_zero(13.2, 6).high == 13.2);
  CHECK(axis_from_zero(0, 6).high > 0);
  for (const double low : {-1e300, -5.0, 0.0, 1e-300, 0.1, 1e14}) {
    for (const double span : {0.0, 1e-12, 0.3, 7.0, 1e300}) {
      const Axis axis = nice_axis(low, low + span, 5);
      CAPTURE(low);
      CAPTURE(span);
      CHECK(axis.low < axis.high);
      CHECK(axis.ticks.size() <= 100);
      CHECK(axis.position(low) >= -1e-6);
      CHECK(axis.position(low + span) <= 1 + 1e-6);
    }
  }
}

TEST_CASE("a logarithmic axis") {
  const Axis axis = log_axis(0.02, 2.5, 6);
  CHECK(axis.position(0.02) == doctest::Approx(0));
  CHECK(axis.position(2.5) == doctest::Approx(1));
  CHECK(axis.position(0.2236068) == doctest::Approx(0.5));
  CHECK(axis.names == Names{"0.02", "0.05", "0.1", "0.2", "0.5", "1", "2"});
  CHECK(log_axis(1e-4, 10, 6).names == Names{"0.0001", "0.001", "0.01", "0.1", "1", "10"});
  CHECK(log_axis(0.5, 30, 6).names == Names{"0.5", "1", "2", "5", "10", "20"});
  CHECK(log_axis(1e-30, 1e30, 6).ticks.size() <= 12);
}

TEST_CASE("names of ticks") {
  CHECK(tick_name(0.30000000000000004, 0.1) == "0.3");
  CHECK(tick_name(-1e-17, 0.1) == "0.0");
  CHECK(tick_name(2e9, 1e9) == "2e+09");
  CHECK(tick_name(3e-7, 1e-7) == "3e-07");
}

TEST_CASE(
    "text is escaped; what is not UTF-8, or is a control character, becomes a question mark") {
  CHECK(escape("a<b> & \"c\"") == "a&lt;b&gt; &amp; &quot;c&quot;");
  CHECK(escape("gr\xc3\xbcn \xe2\x82\xac \xf0\x9f\x99\x82") ==
        "gr\xc3\xbcn \xe2\x82\xac \xf0\x9f\x99\x82");
  CHECK(escape("\xff\x01\xc3") == "???");
  CHECK(escape("\xe2\x82") == "??");
}

TEST_CASE("the styles of lines all differ, also where neither colour nor marker is seen") {
  std::set<std::string> styles;
  Chart chart{.x = axis_from_zero(2, 2), .y = axis_from_zero(1, 2)};
  for (size_t style = 0; style < kLineStyles; ++style) {
    chart.lines = {{{{0, 0}, {2, 1}}, style}};
    const std::string svg = draw_chart(chart, {0, 0, 300, 200});
    const size_t at = svg.find("class=\"l ");
    REQUIRE(at != svg.npos);
    styles.insert(svg.substr(at, svg.find('"', at + 7) - at));
  }
  CHECK(styles.size() == kLineStyles);
}

TEST_CASE("a line's points lie where its values say") {
  const Chart chart{.title = "t",
                    .x_title = "x",
                    .x = {.low = 0, .high = 10},
                    .y = {.low = 0, .high = 1},
                    .lines = {{{{0, 0}, {5, 1}, {10, 0.5}}, 0}}};
  const std::string svg = draw_chart(chart, {0, 0, 324, 166});  // plot: 10..310 by 26..126
  CHECK(svg.find("points=\"10.0,126.0 160.0,26.0 310.0,76.0 \"") != svg.npos);
  CHECK(draw_chart({.title = "t"}, {0, 0, 300, 200}).find("no values") != std::string::npos);
}

TEST_CASE("thinned points keep the mean") {
  Points points;
  for (int i = 0; i < 1001; ++i) points.emplace_back(i, 2 * i);
  const Points few = thinned(points, 100);
  CHECK(few.size() <= 100);
  CHECK(few[0] == std::pair{5.0, 10.0});  // of 0..10
  CHECK(thinned(points, 2000) == points);
}

}  // namespace
}  // namespace lockstep::report
