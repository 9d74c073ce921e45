#include "lockstep/bench/all_reduce_sweep.h"

#include "lockstep/base/error.h"
#include "lockstep/distributed/comm/thread_group.h"

#include <doctest/doctest.h>

namespace lockstep::bench {
namespace {

TEST_CASE("the paper's sizes go from 1k to 20M") {
  const auto sizes = paper_sizes();
  CHECK(sizes.front() == 1'000);
  CHECK(sizes.back() == 20'000'000);
  CHECK(sizes.size() == 14);
}

TEST_CASE("each size moves all elements, the last tensor with what is left") {
  spawn(3, [](ProcessGroup& group) {
    const auto points = all_reduce_sweep({.elements = 1000, .sizes = {1, 300, 1000}}, group);
    if (points.size() != 3) throw Error("a size is missing");
    if (points[0].tensors != 1000 || points[1].tensors != 4 || points[2].tensors != 1)
      throw Error("wrong number of tensors");
    for (const SweepPoint& p : points) {
      if (p.seconds <= 0 || p.gb_per_s <= 0 || p.us_per_call <= 0) throw Error("not measured");
    }
  });
}

TEST_CASE("a size above all elements is refused") {
  CHECK_THROWS_WITH_AS(
      spawn(1,
            [](ProcessGroup& group) { all_reduce_sweep({.elements = 10, .sizes = {11}}, group); }),
      doctest::Contains("wanted sizes from 1 to 10, got 11"), ArgumentError);
}

TEST_CASE("the knee is the smallest size near the fastest") {
  const auto at = [](int64_t size, double seconds) {
    return SweepPoint{.size = size, .seconds = seconds};
  };
  CHECK(knee_of({at(1, 9), at(2, 3), at(4, 1.09), at(8, 1), at(16, 1.05)}) == 4);
  CHECK(knee_of({at(5, 1)}) == 5);
}

}  // namespace
}  // namespace lockstep::bench
