#include "lockstep/base/intervals.h"

#include <doctest/doctest.h>

#include <random>

namespace lockstep {
namespace {

TEST_CASE("normalize merges what overlaps or touches and drops what is empty") {
  IntervalSet set{{10, 20}, {5, 5}, {0, 3}, {3, 4}, {15, 18}, {19, 30}, {8, 7}};
  normalize(set);
  CHECK(set == IntervalSet{{0, 4}, {10, 30}});
  IntervalSet none;
  normalize(none);
  CHECK(none.empty());
  CHECK(total_length(set) == 24);
}

TEST_CASE("subtract cuts, splits and swallows") {
  IntervalSet out;
  subtract({{0, 10}}, {{2, 3}, {5, 6}}, out);
  CHECK(out == IntervalSet{{0, 2}, {3, 5}, {6, 10}});
  subtract({{0, 10}, {20, 30}}, {{-5, 25}}, out);
  CHECK(out == IntervalSet{{25, 30}});
  subtract({{0, 10}}, {}, out);
  CHECK(out == IntervalSet{{0, 10}});
  subtract({}, {{0, 1}}, out);
  CHECK(out.empty());
}

TEST_CASE("against sets of single points") {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    constexpr int kPoints = 40;
    bool in_a[kPoints] = {}, in_b[kPoints] = {};
    IntervalSet a, b, out;
    for (auto [set, in] : {std::pair{&a, in_a}, std::pair{&b, in_b}}) {
      const int count = static_cast<int>(random() % 6);
      for (int i = 0; i < count; ++i) {
        const int begin = static_cast<int>(random() % kPoints);
        const int end = begin + static_cast<int>(random() % (kPoints - begin));
        set->push_back({begin, end});
        for (int p = begin; p < end; ++p) in[p] = true;
      }
      normalize(*set);
    }
    subtract(a, b, out);
    int64_t expected = 0;
    for (int p = 0; p < kPoints; ++p) expected += in_a[p] && !in_b[p];
    REQUIRE(total_length(out) == expected);
    IntervalSet again = out;
    normalize(again);
    REQUIRE(again == out);
  }
}

}  // namespace
}  // namespace lockstep
