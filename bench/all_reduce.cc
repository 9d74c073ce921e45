// What a collective costs: lockstep launch --nproc 2 -- all_reduce [REPETITIONS]. The barrier is
// also the price of the agreement that precedes every Gloo collective.
#include "lockstep/distributed/comm/make_process_group.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <vector>

namespace {

using namespace lockstep;
using Clock = std::chrono::steady_clock;

struct Result {
  double median_ms;
  double best_ms;
};

template <class Fn>
Result measure(int repetitions, Fn&& fn) {
  std::vector<double> ms;
  for (int i = 0; i < repetitions; ++i) {
    const auto start = Clock::now();
    fn();
    ms.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
  }
  std::sort(ms.begin(), ms.end());
  return {ms[ms.size() / 2], ms[0]};
}

void run(int repetitions) {
  const auto group = make_process_group();
  const bool speaks = group->rank() == 0;
  const Result barrier = measure(repetitions * 10, [&] { group->barrier()->wait(); });
  if (speaks)
    std::printf("barrier             median %8.3f ms  best %8.3f ms\n", barrier.median_ms,
                barrier.best_ms);
  for (int64_t bytes : {4, 65'536, 1 << 20, 25 << 20}) {
    Tensor tensor = Tensor::zeros({bytes / 4}, DType::kF32);
    const Result r = measure(repetitions, [&] { group->all_reduce(tensor)->wait(); });
    if (speaks) {
      std::printf("all_reduce %8ld B median %8.3f ms  best %8.3f ms  (agreement %.1f %%)\n",
                  static_cast<long>(bytes), r.median_ms, r.best_ms,
                  100 * barrier.median_ms / r.median_ms);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(argc > 1 ? std::max(1, std::atoi(argv[1])) : 20);
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "all_reduce: %s\n", e.what());
    return 1;
  }
}
