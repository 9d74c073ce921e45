// Products, softmax and cross-entropy against PyTorch (tests/golden/make_linalg.py).
#include "lockstep/autograd/ops/loss.h"
#include "lockstep/autograd/ops/matmul.h"
#include "lockstep/autograd/ops/softmax.h"
#include "lockstep/base/str.h"
#include "lockstep/io/safetensors.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace lockstep {
namespace {

using testing::relative_difference;

/// The stored values are rounded to f32 once; f32 arithmetic over at most 50 terms, with
/// cancellation in the softmaxes' backward, stays well within 1e-5 of them.
void check_case(const TensorFile& golden, const std::string& name, const testing::Function& fn) {
  CAPTURE(name);
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    const double tolerance = dtype == DType::kF32 ? 1e-5 : 1e-6;
    std::vector<Variable> inputs;
    while (const Tensor* input = golden.find(str(name, ".in", inputs.size()))) {
      inputs.emplace_back(ops::cast(ops::clone(*input), dtype), true);
    }
    REQUIRE(!inputs.empty());
    const Variable out = fn(inputs);
    out.backward(ops::cast(golden.at(name + ".weight"), dtype));
    CHECK(relative_difference(out.data(), golden.at(name + ".out")) <= tolerance);
    for (size_t i = 0; i < inputs.size(); ++i) {
      CAPTURE(i);
      CHECK(relative_difference(*inputs[i].grad(), golden.at(str(name, ".grad", i))) <= tolerance);
    }
  }
}

TEST_CASE("products, softmax and cross-entropy equal PyTorch's") {
  using Inputs = const std::vector<Variable>&;
  const TensorFile golden = read_safetensors("tests/golden/linalg.safetensors");
  check_case(golden, "matmul", [](Inputs x) { return matmul(x[0], x[1]); });
  check_case(golden, "matmul_transposed", [](Inputs x) {
    return matmul(x[0], x[1], {.transpose_a = true, .transpose_b = true});
  });
  check_case(golden, "matmul_shared", [](Inputs x) { return matmul(x[0], x[1]); });
  check_case(golden, "linear", [](Inputs x) { return linear(x[0], x[1], x[2]); });
  check_case(golden, "softmax_last", [](Inputs x) { return softmax(x[0], -1); });
  check_case(golden, "softmax_middle", [](Inputs x) { return softmax(x[0], 1); });
  check_case(golden, "log_softmax_last", [](Inputs x) { return log_softmax(x[0], -1); });
  check_case(golden, "log_softmax_first", [](Inputs x) { return log_softmax(x[0], 0); });
  const Tensor targets = golden.at("targets");
  for (const Reduction reduction : {Reduction::kMean, Reduction::kSum}) {
    for (const double smoothing : {0.0, 0.1}) {
      const std::string name =
          str("cross_entropy_", reduction == Reduction::kMean ? "mean_" : "sum_",
              smoothing == 0 ? "0.0" : "0.1");
      check_case(golden, name, [&](Inputs x) {
        return cross_entropy(x[0], targets, {.label_smoothing = smoothing, .reduction = reduction});
      });
    }
  }
}

}  // namespace
}  // namespace lockstep
