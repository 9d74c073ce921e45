// A communication hook of one's own, whole: docs/writing_a_comm_hook.md explains it.
#pragma once

#include "lockstep/distributed/reduce/comm_hook.h"

#include <algorithm>
#include <cmath>

using namespace lockstep;

/// Gradients travel as one byte for each element, a multiple of 1/127 of the bucket's largest.
class ByteHook : public CommHook {
 public:
  int64_t reduce(const GradBucket& bucket, ProcessGroup& group) override {
    Tensor flat = bucket.flat;
    const int64_t n = flat.numel();
    float* gradient = flat.mutable_data<float>();

    Tensor largest = Tensor::zeros({1}, DType::kF32);
    float& scale = *largest.mutable_data<float>();
    for (int64_t i = 0; i < n; ++i) {
      scale = std::isfinite(gradient[i]) ? std::max(scale, std::abs(gradient[i])) : INFINITY;
    }
    group.all_reduce(largest, ReduceOp::kMax)->wait();
    check(std::isfinite(scale), "byte hook: a gradient in bucket ", bucket.index, " is not finite");
    if (scale == 0) return 4;  // on every rank, for all have the same maximum

    Tensor mine = Tensor::empty({n}, DType::kU8);
    Tensor all = Tensor::empty({group.size(), n}, DType::kU8);
    auto* code = mine.mutable_data<uint8_t>();
    for (int64_t i = 0; i < n; ++i) {
      code[i] = static_cast<uint8_t>(128 + std::lround(gradient[i] / scale * 127));
    }
    group.all_gather(all, mine)->wait();

    for (int64_t i = 0; i < n; ++i) {
      int sum = 0;
      for (int r = 0; r < group.size(); ++r) sum += all.data<uint8_t>()[r * n + i] - 128;
      gradient[i] = scale / 127 * static_cast<float>(sum);
    }
    return n + 4;
  }
};
