#include "lockstep/optim/clip.h"

#include "lockstep/io/safetensors.h"
#include "lockstep/optim/flatten.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tensor/ops/reduce.h"
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>
#include <omp.h>

#include <cmath>
#include <limits>
#include <vector>

namespace lockstep {
namespace {

using testing::random_tensor;
using testing::relative_difference;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Variable with_grad(const Tensor& grad) {
  Variable parameter(Tensor::zeros(grad.shape(), grad.dtype()), true);
  parameter.bind_grad(ops::clone(grad));
  parameter.set_grad_defined(true);
  return parameter;
}

// tests/golden/make_models.py, clip(); computed in f64, stored as f32 but for the norm.
TEST_CASE("norm and gradients equal PyTorch's") {
  const TensorFile golden = read_safetensors("tests/golden/clip.safetensors");
  for (const auto& [name, bound] : {std::pair{"below", 0.05}, {"above", 10.0}, {"near", 0.2}}) {
    for (const DType dtype : {DType::kF32, DType::kF64}) {
      std::vector<NamedParameter> list;
      for (const char* key : {"a", "b", "d"})
        list.push_back({key, with_grad(ops::cast(golden.at(str("grad.", key)), dtype))});
      list.push_back({"c", Variable(Tensor::zeros({3, 4}, dtype), true)});  // no gradient
      const double norm = clip_grad_norm(list, bound);
      CAPTURE(name);
      CHECK(norm == doctest::Approx(golden.at(str(name, ".norm")).item()).epsilon(1e-14));
      CHECK((norm > bound) == (std::string(name) != "above"));
      for (const auto& [key, parameter] : list) {
        CAPTURE(key);
        if (key == "c") {
          CHECK_FALSE(parameter.grad());
        } else {
          CHECK(relative_difference(*parameter.grad(), golden.at(str(name, ".", key))) <= 1.2e-7);
        }
      }
    }
  }
}

TEST_CASE("the same gradients give the same bits: threads, arenas, gradients apart") {
  const std::vector<Shape> shapes{{3}, {100, 7}, {300000}, {}, {65536}};
  std::vector<Variable> apart, together;
  for (size_t i = 0; i < shapes.size(); ++i) {
    apart.push_back(with_grad(random_tensor(shapes[i], i, -1, 1, DType::kF32)));
    together.push_back(Variable(Tensor::zeros(shapes[i], DType::kF32), true));
  }
  bind_gradients_to_arena(together);
  for (size_t i = 0; i < shapes.size(); ++i) {
    Tensor slot = together[i].grad_slot();
    ops::copy(*apart[i].grad(), slot);
    together[i].set_grad_defined(true);
  }
  const int before = omp_get_max_threads();
  omp_set_num_threads(1);
  const double one = clip_grad_norm(apart, kInfinity);
  for (const int threads : {2, 3, 7}) {
    omp_set_num_threads(threads);
    CHECK(clip_grad_norm(apart, kInfinity) == one);
    CHECK(clip_grad_norm(together, kInfinity) == one);
  }
  omp_set_num_threads(before);
  CHECK(one == doctest::Approx(std::sqrt((3 + 700 + 300000 + 1 + 65536) / 3.0)).epsilon(0.01));
  // Clipped, the norm is the bound, and is clipped no more.
  CHECK(clip_grad_norm(together, 2) == one);
  const double after = clip_grad_norm(together, kInfinity);
  CHECK(after == doctest::Approx(2).epsilon(1e-6));
}

TEST_CASE("sum_of_squares: every dtype and odd counts") {
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16}) {
    for (const int64_t n : {0, 1, 15, 16, 17, 32767, 32769, 100001}) {
      const Tensor x = random_tensor({n}, 5, -3, 3, dtype);
      double expected = 0;
      for (const double v : ops::cast(x, DType::kF64).to_vector<double>()) expected += v * v;
      Tensor total = Tensor::empty({}, DType::kF64);
      ops::sum_of_squares(x, total);
      CHECK(total.item() == doctest::Approx(expected).epsilon(1e-13));
    }
  }
  Tensor wrong = Tensor::empty({2}, DType::kF64);
  CHECK_THROWS_WITH_AS(ops::sum_of_squares(wrong, wrong), doctest::Contains("one f64 element"),
                       ArgumentError);
}

TEST_CASE("f32 squares neither overflow nor vanish") {
  const std::vector<Variable> large{with_grad(ops::full({4}, 1e30, DType::kF32))};
  CHECK(clip_grad_norm(large, kInfinity) == doctest::Approx(2e30));
  const std::vector<Variable> small{with_grad(ops::full({4}, 1e-30, DType::kF32))};
  CHECK(clip_grad_norm(small, kInfinity) == doctest::Approx(2e-30));
}

TEST_CASE("a norm that is not finite leaves the gradients as they are") {
  for (const double bad : {kInfinity, std::nan("")}) {
    const std::vector<Variable> list{with_grad(ops::full({3}, 5, DType::kF32)),
                                     with_grad(ops::full({1}, bad, DType::kF32))};
    CHECK_FALSE(std::isfinite(clip_grad_norm(list, 1)));
    CHECK(list[0].grad()->to_vector<float>() == std::vector<float>{5, 5, 5});
  }
}

TEST_CASE("bounds: zero, negative, NaN; nothing to clip") {
  const std::vector<Variable> list{with_grad(ops::full({3}, 5, DType::kF32))};
  CHECK_THROWS_WITH_AS(clip_grad_norm(list, -1), doctest::Contains("max_norm >= 0"), ArgumentError);
  CHECK_THROWS_AS(clip_grad_norm(list, std::nan("")), ArgumentError);
  CHECK(clip_grad_norm(list, 0) == doctest::Approx(std::sqrt(75)));
  CHECK(list[0].grad()->to_vector<float>() == std::vector<float>{0, 0, 0});
  CHECK(clip_grad_norm(std::vector<Variable>{}, 1) == 0);
}

}  // namespace
}  // namespace lockstep
