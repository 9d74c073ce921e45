// MSE, BCE with logits, cosine embedding, and the negative log-likelihood.
#include "lockstep/autograd/ops/loss.h"
#include "lockstep/autograd/ops/softmax.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>
#include <omp.h>

#include <cmath>
#include <functional>
#include <vector>

namespace lockstep {
namespace {

using testing::gradcheck;
using testing::random_tensor;

constexpr Reduction kReductions[] = {Reduction::kMean, Reduction::kSum};

Tensor labels_of(int64_t rows) {
  Tensor labels = Tensor::empty({rows}, DType::kI64);
  for (int64_t i = 0; i < rows; ++i) labels.mutable_data<int64_t>()[i] = i % 3 == 1 ? -1 : 1;
  return labels;
}

TEST_CASE("losses: gradients of every input") {
  for (const Reduction reduction : kReductions) {
    for (const Shape& shape : {Shape{5, 3}, Shape{1, 1}, Shape{0, 3}, Shape{2, 67}}) {
      CAPTURE(shape);
      const Tensor a = random_tensor(shape, 1, -2, 2), b = random_tensor(shape, 2, -2, 2);
      const Tensor targets = random_tensor(shape, 3, 0, 1);
      const Tensor weight = random_tensor({shape[1]}, 4, 0.5, 3);
      const auto mse = [&](const auto& v) { return mse_loss(v[0], v[1], reduction); };
      CHECK(gradcheck(mse, {a, b}) == "");
      const auto bce = [&](const auto& v) {
        return bce_with_logits_loss(v[0], targets, {.reduction = reduction});
      };
      CHECK(gradcheck(bce, {a}) == "");
      const auto weighted = [&](const auto& v) {
        return bce_with_logits_loss(v[0], targets, {.pos_weight = weight, .reduction = reduction});
      };
      CHECK(gradcheck(weighted, {a}) == "");
      for (const double margin : {0.0, 0.3, -0.5}) {
        const auto cosine = [&](const auto& v) {
          return cosine_embedding_loss(v[0], v[1], labels_of(shape[0]),
                                       {.margin = margin, .reduction = reduction});
        };
        CHECK(gradcheck(cosine, {a, b}) == "");
      }
      const auto nll = [&](const auto& v) {
        Tensor classes = Tensor::empty({shape[0]}, DType::kI64);
        for (int64_t i = 0; i < shape[0]; ++i)
          classes.mutable_data<int64_t>()[i] = i == 1 ? -7 : i % shape[1];
        return nll_loss(v[0], classes, {.ignore_index = -7, .reduction = reduction});
      };
      CHECK(gradcheck(nll, {a}) == "");
    }
  }
}

TEST_CASE("losses: closed forms") {
  const auto f64 = [](std::vector<double> v, const Shape& s) {
    return Variable(Tensor::from<double>(v, s));
  };
  const double x = std::log(3.0);  // its sigmoid is 3/4
  CHECK(mse_loss(f64({1, 2}, {2}), f64({4, 2}, {2})).data().item() == 4.5);
  CHECK(bce_with_logits_loss(f64({x}, {1}), Tensor::from<double>({1}, {1})).data().item() ==
        doctest::Approx(-std::log(0.75)).epsilon(1e-14));
  CHECK(bce_with_logits_loss(f64({x}, {1}), Tensor::from<double>({0.5}, {1}),
                             {.pos_weight = Tensor::from<double>({4}, {1})})
            .data()
            .item() == doctest::Approx(-2 * std::log(0.75) - 0.5 * std::log(0.25)).epsilon(1e-14));
  const Variable a = f64({3, 4, 1, 0, 0, 0}, {3, 2}), b = f64({4, 3, 1, 1, 1, 1}, {3, 2});
  const Tensor labels = Tensor::from<int64_t>({1, -1, 1}, {3});
  CHECK(cosine_embedding_loss(a, b, labels, {.margin = 0.5, .reduction = Reduction::kSum})
            .data()
            .item() == doctest::Approx(1 - 24.0 / 25 + std::sqrt(0.5) - 0.5 + 1).epsilon(1e-11));
  // In two steps what cross_entropy is in one.
  const Variable logits(random_tensor({7, 5}, 1, -3, 3));
  const Tensor classes = Tensor::from<int64_t>({0, 4, 2, -100, 1, 3, 2}, {7});
  CHECK(nll_loss(log_softmax(logits, 1), classes).data().item() ==
        doctest::Approx(cross_entropy(logits, classes).data().item()).epsilon(1e-14));
}

TEST_CASE("losses: the mean of nothing is 0, large logits do not overflow") {
  const Variable none(Tensor::zeros({0, 3}, DType::kF32));
  CHECK(mse_loss(none, none).data().item() == 0);
  CHECK(bce_with_logits_loss(none, none.data()).data().item() == 0);
  CHECK(nll_loss(none, Tensor::zeros({0}, DType::kI64)).data().item() == 0);
  CHECK(cosine_embedding_loss(none, none, Tensor::zeros({0}, DType::kI64)).data().item() == 0);
  Variable x(Tensor::from<float>({1000, -1000, 1000, -1000}, {4}), true);
  const Tensor targets = Tensor::from<float>({1, 0, 0, 1}, {4});
  const Variable loss = bce_with_logits_loss(x, targets, {.reduction = Reduction::kSum});
  CHECK(loss.data().item() == 2000);
  loss.backward();
  CHECK(x.grad()->to_vector<float>() == std::vector<float>{0, 0, 1, -1});
}

TEST_CASE("losses: f32 and bf16 agree with f64, the same on any number of threads") {
  const int threads = omp_get_max_threads();
  using Loss = std::function<Variable(const Variable&, const Tensor&)>;
  const Loss losses[] = {
      [](const Variable& x, const Tensor& y) { return mse_loss(x, Variable(y)); },
      [](const Variable& x, const Tensor& y) { return bce_with_logits_loss(x, y); },
      [](const Variable& x, const Tensor& y) {
        return cosine_embedding_loss(x, Variable(y), labels_of(x.dim(0)));
      }};
  for (const Loss& loss : losses) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      Variable x(random_tensor({200, 333}, 1, -4, 4, dtype), true);
      const Tensor y = random_tensor({200, 333}, 2, 0, 1, dtype);
      Variable exact(ops::cast(x.data(), DType::kF64), true);
      const Variable of_exact = loss(exact, ops::cast(y, DType::kF64));
      omp_set_num_threads(1);
      const double single = loss(x, y).data().item();
      omp_set_num_threads(3);
      const Variable several = loss(x, y);
      omp_set_num_threads(threads);
      CHECK(several.dtype() == DType::kF32);
      CHECK(several.data().item() == single);
      // Sums of a thousand f32 terms, then f64.
      CHECK(single == doctest::Approx(of_exact.data().item()).epsilon(2e-6));
      several.backward();
      of_exact.backward();
      CHECK(testing::relative_difference(*x.grad(), *exact.grad()) <
            (dtype == DType::kF32 ? 2e-6 : 4e-3));
    }
  }
}

TEST_CASE("losses: what does not fit is refused") {
  const auto of = [](const Shape& shape, DType dtype = DType::kF32) {
    return Variable(Tensor::zeros(shape, dtype));
  };
  const auto refused = [](const auto& call, const char* what) {
    CAPTURE(what);
    CHECK_THROWS_WITH_AS(call(), doctest::Contains(what), ArgumentError);
  };
  const Variable x = of({2, 3});
  refused([&] { mse_loss(x, of({3, 2})); }, "mse: wanted a target");
  refused([&] { mse_loss(x, of({2, 3}, DType::kF64)); }, "f32 [2, 3] and f64 [2, 3]");
  refused([&] { mse_loss(of({2}, DType::kI64), of({2}, DType::kI64)); }, "got i64");
  refused([&] { bce_with_logits_loss(x, of({2}).data()); }, "bce_with_logits: wanted targets");
  refused([&] { bce_with_logits_loss(x, x.data(), {.pos_weight = of({2}).data()}); }, "pos_weight");
  const auto labelled = [&](std::vector<int64_t> v) {
    const auto n = static_cast<int64_t>(v.size());
    return [&x, labels = Tensor::from(v, {n})] { cosine_embedding_loss(x, x, labels); };
  };
  refused(labelled({1, 0}), "the label of row 1 is 0, wanted 1 or -1");
  refused(labelled({1}), "labels of i64 [N]");
  refused(
      [&] {
        nll_loss(x, Tensor::from<int64_t>({0, 3}, {2}));
      },
      "nll: the target of row 1 is 3, wanted one in [0, 3)");
  refused([&] { nll_loss(of({3}), Tensor::zeros({3}, DType::kI64)); }, "nll: wanted log_probs");
}

}  // namespace
}  // namespace lockstep
