#include "lockstep/train/most_likely.h"

#include "lockstep/tensor/ops/copy.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <vector>

namespace lockstep {

void print_most_likely(const Tensor& logits, int64_t top,
                       const std::function<std::string(int64_t)>& name) {
  const std::vector<float> values = ops::to_device(logits, Device::cpu()).to_vector<float>();
  const double most = *std::max_element(values.begin(), values.end());
  double sum = 0;
  for (const float value : values) sum += std::exp(value - most);
  std::vector<int64_t> order(values.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  const auto value_of = [&](int64_t i) { return values[static_cast<size_t>(i)]; };
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return value_of(a) > value_of(b); });
  order.resize(std::min(order.size(), static_cast<size_t>(top)));
  for (const int64_t i : order) {
    std::printf("  %6.2f %%  %s\n", 100 * std::exp(value_of(i) - most) / sum, name(i).c_str());
  }
}

}  // namespace lockstep
