// A program runs on a machine without a GPU, and says what is missing only when it is asked for the
// device.
#include "lockstep/tensor/ops/activation.h"

#include <doctest/doctest.h>

#include <cstdio>
#include <string>

namespace lockstep {
namespace {

TEST_CASE("without CUDA the CPU works, and asking for cuda says which part is missing") {
  CHECK(ops::relu(Tensor::from<float>({-1, 2}, {2})).to_vector<float>()[1] == 2);
  std::string message;
  for (int attempt = 0; attempt < 2; ++attempt) {
    message.clear();
    try {
      Tensor::empty({2}, DType::kF32, Device::cuda());
    } catch (const UnsupportedError& error) {
      message = error.what();
    }
  }
#ifdef LOCKSTEP_CUDA
  if (message.empty()) {
    std::puts("SKIPPED: this machine has a GPU");
    return;
  }
  CHECK(message.find("device cuda: this program has CUDA, but this machine has no usable NVIDIA "
                     "driver or GPU: ") == 0);
#else
  CHECK(message ==
        "device cuda: this program was built without CUDA; build it with --config=cuda, or use "
        "--device cpu");
#endif
}

}  // namespace
}  // namespace lockstep
