#include "lockstep/models/sentence_embedding.h"

#include "lockstep/base/error.h"
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>

#include <cmath>

namespace lockstep {
namespace {

using testing::gradcheck;
using testing::random_tensor;
using testing::relative_difference;

TEST_CASE("means over what is no padding, of length 1, and their gradient") {
  const Tensor x = random_tensor({3, 4, 5}, 1);
  const Tensor padding = Tensor::from<uint8_t>({0, 0, 0, 0, 0, 1, 0, 1, 1, 1, 1, 1}, {3, 4});
  const Tensor y = sentence_embeddings(Variable(x), padding).data();
  const auto in = x.to_vector<double>(), out = y.to_vector<double>();
  const auto dropped = padding.to_vector<uint8_t>();
  for (size_t b = 0; b < 3; ++b) {
    double mean[5] = {}, square = 0;
    for (size_t s = 0; s < 4; ++s) {
      for (size_t h = 0; h < 5; ++h) mean[h] += dropped[4 * b + s] ? 0 : in[20 * b + 5 * s + h];
    }
    for (double m : mean) square += m * m;
    const double norm = std::sqrt(square);
    for (size_t h = 0; h < 5; ++h)
      CHECK(out[5 * b + h] == doctest::Approx(b == 2 ? 0 : mean[h] / norm).epsilon(1e-6));
  }
  const auto means = mean_of_tokens(Variable(x), padding).data().to_vector<double>();
  CHECK(means[0] == doctest::Approx((in[0] + in[5] + in[10] + in[15]) / 4).epsilon(1e-6));
  CHECK(means[7] == doctest::Approx((in[22] + in[32]) / 2).epsilon(1e-6));
  CHECK(gradcheck([&](const auto& v) { return mean_of_tokens(v[0], padding); }, {x}) == "");
  const Tensor kept = padding.slice(0, 2);
  CHECK(gradcheck([&](const auto& v) { return sentence_embeddings(v[0], kept); },
                  {random_tensor({2, 4, 5}, 2)}) == "");
  CHECK(gradcheck([&](const auto& v) { return sentence_embeddings(v[0], Tensor()); },
                  {random_tensor({2, 3, 5}, 3)}) == "");
  CHECK_THROWS_AS(sentence_embeddings(Variable(x), Tensor::zeros({3, 5}, DType::kU8)),
                  ArgumentError);
  CHECK_THROWS_AS(sentence_embeddings(Variable(random_tensor({3, 4}, 1)), Tensor()), ArgumentError);
}

}  // namespace
}  // namespace lockstep
