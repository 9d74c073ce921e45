#include "lockstep/train/threads.h"

#include "lockstep/distributed/comm/environment.h"

#include <omp.h>

namespace lockstep {

int set_threads(int threads, const RankPlace& place) {
  if (threads > 0) {
    omp_set_num_threads(threads);
  } else if (!process_environment()("OMP_NUM_THREADS")) {
    omp_set_num_threads(place.threads);
  }
  return omp_get_max_threads();
}

}  // namespace lockstep
