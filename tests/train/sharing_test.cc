// Where a run goes on with other ranks, and when it cannot.
#include "lockstep/train/sharing.h"

#include "lockstep/base/error.h"

#include <doctest/doctest.h>

namespace lockstep {
namespace {

constexpr Sharing kFour{.ranks = 4, .batch_size = 8, .accumulated = 1, .batches = 31};  // of 1016

TEST_CASE("within an epoch steps of as many samples go on at the same sample") {
  const Position at{.step = 31 + 10, .epoch = 1, .batch = 10};
  // Half the ranks, each twice as much: in one micro-batch, the same in every way; in two.
  Sharing two{.ranks = 2, .batch_size = 16, .accumulated = 1, .batches = 31};
  CHECK(reshare("c", at, kFour, two, true).position == at);
  two = {.ranks = 2, .batch_size = 8, .accumulated = 2, .batches = 63};
  const Reshared more = reshare("c", at, kFour, two, false);
  // An epoch has a short 32nd step now, so that the second one begins at step 32.
  CHECK(more.position == Position{.step = 32 + 10, .epoch = 1, .batch = 20});
  CHECK(more.notice ==
        "global batch 32 = 2 ranks x 8 x 2 instead of 32 = 4 ranks x 8; step 41 counts "
        "as step 42");
  CHECK_THROWS_WITH_AS(reshare("c", at, kFour, two, /*steps_count=*/true),
                       doctest::Contains("--max-steps counts them"), ArgumentError);
}

TEST_CASE("within an epoch other steps are refused, with what to give instead") {
  const Position at{.step = 10, .epoch = 0, .batch = 10};
  const auto refused = [&](const Sharing& now, const char* why) {
    for (const int64_t batches : {int64_t{0}, int64_t{50}}) {  // also before the data is looked at
      Sharing with = now;
      with.batches = batches;
      CHECK_THROWS_WITH_AS(reshare("run/last", at, kFour, with, false), doctest::Contains(why),
                           ArgumentError);
    }
  };
  refused(
      {.ranks = 2, .batch_size = 8},
      "resume run/last: wanted a global batch of 32 = 4 ranks x 8 as in the checkpoint, which "
      "lies within an epoch, got 16 = 2 ranks x 8; give --grad-accum-steps 2 or --batch-size 16 "
      "or 4 ranks, or go on from the end of an epoch");
  refused({.ranks = 3, .batch_size = 8}, "got 24 = 3 ranks x 8; give 4 ranks, or go on");
  refused({.ranks = 3, .batch_size = 0}, "how its samples were shared out is not known");
}

TEST_CASE("between two epochs any steps go on, and an epoch's end is one in any") {
  const Sharing now{.ranks = 3, .batch_size = 10, .accumulated = 2, .batches = 33};
  CHECK(reshare("c", {.step = 62, .epoch = 2, .batch = 0}, kFour, now, false).position ==
        Position{.step = 34, .epoch = 2, .batch = 0});
  // Before its evaluation. 24 samples are left over with four ranks, 26 with three.
  CHECK(reshare("c", {.step = 62, .epoch = 1, .batch = 31}, kFour, now, false).position ==
        Position{.step = 34, .epoch = 1, .batch = 33});
}

TEST_CASE("a damaged file's numbers are refused, whatever they are") {
  const Sharing now{.ranks = 3, .batch_size = 10, .accumulated = 2, .batches = 33};
  for (const Position& at :
       {Position{0, INT64_MAX, 0}, Position{0, -1, 0}, Position{0, 0, 32}, Position{0, 0, -1}}) {
    CHECK_THROWS_AS(reshare("c", at, kFour, now, false), IoError);
  }
  Sharing wild = kFour;
  wild.ranks = wild.batch_size = INT64_MAX;
  CHECK_THROWS_AS(reshare("c", {}, wild, now, false), IoError);
  wild = kFour;
  wild.accumulated = 0;
  CHECK_THROWS_AS(reshare("c", {}, wild, now, false), IoError);
}

}  // namespace
}  // namespace lockstep
