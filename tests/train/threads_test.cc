#include "lockstep/train/threads.h"

#include <doctest/doctest.h>
#include <omp.h>

#include <cstdlib>

namespace lockstep {
namespace {

TEST_CASE("threads: what is asked for, else OMP_NUM_THREADS, else the rank's share") {
  RankPlace place;
  place.threads = 3;
  ::unsetenv("OMP_NUM_THREADS");
  CHECK(set_threads(0, place) == 3);
  CHECK(set_threads(2, place) == 2);
  CHECK(omp_get_max_threads() == 2);
  ::setenv("OMP_NUM_THREADS", "5", 1);
  CHECK(set_threads(0, place) == 2);  // as OpenMP has it: it read the variable long ago
  ::setenv("OMP_NUM_THREADS", "", 1);
  CHECK(set_threads(0, place) == 3);
}

}  // namespace
}  // namespace lockstep
