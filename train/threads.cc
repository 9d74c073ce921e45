#include "lockstep/train/threads.h"

#include "lockstep/base/error.h"
#include "lockstep/distributed/comm/environment.h"

#include <omp.h>

namespace lockstep {

int set_threads(int threads, const RankPlace& place) {
  if (threads > 0) {
    omp_set_num_threads(threads);
  } else if (!process_environment()("OMP_NUM_THREADS")) {
    omp_set_num_threads(place.threads);
  }
  constexpr int kMost = 1024;  // as --threads; far beyond it, a team no longer starts
  const int many = omp_get_max_threads();
  check(many <= kMost, "wanted at most ", kMost, " compute threads, got ", many,
        " by OMP_NUM_THREADS; unset it, or set it to what one rank may have of the processors");
  return many;
}

}  // namespace lockstep
