#include "lockstep/autograd/ops/activation.h"

#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

namespace lockstep {
namespace {

using testing::gradcheck;
using testing::random_tensor;

TEST_CASE("relu: gradient") {
  CHECK(gradcheck([](const auto& x) { return relu(x[0]); }, {random_tensor({3, 5}, 1)}) == "");
  CHECK(gradcheck([](const auto& x) { return relu(x[0]); }, {random_tensor({0, 5}, 1)}) == "");
}

TEST_CASE("relu: values") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor y = relu(Variable(Tensor::from<float>({-1, 0, 2, nan}, {4}))).data();
  const auto v = y.to_vector<float>();
  CHECK(v[0] == 0);
  CHECK(v[1] == 0);
  CHECK(v[2] == 2);
  CHECK(std::isnan(v[3]));
}

}  // namespace
}  // namespace lockstep
