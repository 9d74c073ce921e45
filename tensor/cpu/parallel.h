// parallel_for: the CPU kernels' way to use OpenMP's threads.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

namespace lockstep::cpu {

/// Elements below which a loop stays on one thread: waking the others costs about as much as 16k
/// simple elements.
inline constexpr int64_t kGrain = 16384;

// ThreadSanitizer cannot see how libgomp's threads wait for each other and would report every loop.
#ifdef __SANITIZE_THREAD__
inline int threads() { return 1; }
#else
inline int threads() { return omp_get_max_threads(); }
#endif

/// Calls fn(begin, end) for contiguous pieces that cover [0, count), on up to all of OpenMP's
/// threads; a piece has at least `grain` iterations. The pieces depend on (count, grain, number of
/// threads) alone.
template <class Fn>
void parallel_for(int64_t count, int64_t grain, Fn&& fn) {
  const int64_t pieces =
      std::min<int64_t>(threads(), std::max<int64_t>(count / std::max<int64_t>(grain, 1), 1));
  if (pieces == 1 || omp_in_parallel()) {
    if (count > 0) fn(int64_t{0}, count);
    return;
  }
#pragma omp parallel num_threads(static_cast <int>(pieces))
  {
    const int64_t me = omp_get_thread_num();
    const int64_t all = omp_get_num_threads();
    const int64_t begin = count * me / all;
    const int64_t end = count * (me + 1) / all;
    if (begin < end) fn(begin, end);
  }
}

}  // namespace lockstep::cpu
