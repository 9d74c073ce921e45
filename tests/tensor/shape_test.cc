#include "lockstep/tensor/shape.h"

#include "lockstep/base/error.h"

#include <doctest/doctest.h>

namespace lockstep {
namespace {

TEST_CASE("shape: extents, counts, text, equality") {
  const Shape s{2, 3, 4};
  CHECK(s.ndim() == 3);
  CHECK(s.numel() == 24);
  CHECK(s[1] == 3);
  CHECK(s.dim(-1) == 4);
  CHECK(s.numel(1, 3) == 12);
  CHECK(s.numel(2, 2) == 1);
  CHECK(s.to_string() == "[2, 3, 4]");
  CHECK(s == Shape{2, 3, 4});
  CHECK(s != Shape{2, 3});
  CHECK(s != Shape{2, 3, 5});
  CHECK(s.with_dim(-2, 7) == Shape{2, 7, 4});
  CHECK(Shape().numel() == 1);
  CHECK(Shape().to_string() == "[]");
  CHECK(Shape{3, 0, 5}.numel() == 0);
  CHECK(s.axis(2, "op") == 2);
  CHECK(s.axis(-3, "op") == 0);
}

TEST_CASE("shape: what cannot be is refused") {
  CHECK_THROWS_WITH_AS((Shape{2, -1}), doctest::Contains("negative"), ArgumentError);
  CHECK_THROWS_WITH_AS((Shape{1, 1, 1, 1, 1, 1, 1, 1, 1}), doctest::Contains("at most 8"),
                       ArgumentError);
  CHECK_THROWS_WITH_AS((Shape{int64_t{1} << 31, int64_t{1} << 31, 2}),
                       doctest::Contains("overflows"), ArgumentError);
  CHECK_NOTHROW((Shape{int64_t{1} << 31, int64_t{1} << 31}));
  // No elements, but a slice of it would count them: the rows alone overflow.
  CHECK_THROWS_WITH_AS((Shape{0, int64_t{1} << 62, 4}), doctest::Contains("overflows"),
                       ArgumentError);
  CHECK_THROWS_WITH_AS((Shape{2}.dim(1)), doctest::Contains("does not exist"), ArgumentError);
  CHECK_THROWS_AS((Shape{2}.dim(-2)), ArgumentError);
  CHECK_THROWS_WITH_AS((Shape{2, 3}.axis(-3, "op")), "op: dimension -3 of [2, 3] does not exist",
                       ArgumentError);
  CHECK_THROWS_AS((Shape{2}.with_dim(1, 3)), ArgumentError);
}

}  // namespace
}  // namespace lockstep
