// What verify promises for a model of one's own; docs/verify.md quotes it.
#include "lockstep/train/verify/verify.h"

#include "lockstep/autograd/autocast.h"
#include "lockstep/autograd/ops/activation.h"
#include "lockstep/autograd/ops/loss.h"
#include "lockstep/autograd/ops/pool.h"
#include "lockstep/nn/nn.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tensor/random.h"

#include <doctest/doctest.h>

#include <string>

namespace lockstep {
namespace {

struct Net : Module {
  Generator rng{1};
  Linear hidden{{.in_features = 6, .out_features = 10}, rng};
  Linear out{{.in_features = 10, .out_features = 3}, rng};
  Net() { register_module("hidden", hidden), register_module("out", out); }
  Variable forward(const Variable& x) { return out(relu(hidden(x))); }
};

LossModel make_net() {
  return loss_model(std::make_shared<Net>(), [](Net& net, const Batch& batch) {
    return cross_entropy(net.forward(Variable(batch.inputs)), batch.targets);
  });
}

Batch make_batch(int64_t step, int64_t micro, int rank) {
  Generator rng(static_cast<uint64_t>(1000 * step + 100 * micro + rank));
  const PhiloxRange dice = rng.take(4 * 6 + 4);
  std::vector<float> inputs;
  for (int64_t i = 0; i < 4 * 6; ++i) inputs.push_back(dice.uniform(i) - 0.5f);
  std::vector<int64_t> targets;
  for (int64_t i = 4 * 6; i < 4 * 6 + 4; ++i) targets.push_back(dice.bits(i) % 3);
  return {Tensor::from(inputs, {4, 6}), Tensor::from(targets, {4})};
}

bool starts_with(const VerifyReport& report, const std::string& words) {
  INFO(report.verdict);
  CHECK(report.verdict.substr(0, words.size()) == words);
  return report.passed;
}

TEST_CASE("a model of one's own passes") {
  const VerifyReport report = verify(make_net, make_batch, {.ranks = 3, .micro_batches = 2});
  CHECK(starts_with(report, "PASS largest difference "));
  REQUIRE(report.checks.size() == 6);
  for (size_t i = 0; i < 5; ++i) CHECK(report.checks[i].steps == 8);
  CHECK(report.checks[5].steps == 2);
  // Sums in the order of the ranks: not a bit differs, but for the whole batch.
  for (size_t i = 0; i < 5; ++i) CHECK(report.checks[i].difference == 0);
  CHECK(report.checks[5].what == "f64: 3 ranks = one process, whole batch");
  CHECK(report.checks[5].difference > 0);
  CHECK(report.checks[5].difference < 1e-13);
}

TEST_CASE("mixed precision passes, bit for bit") {
  const auto make_mixed = [] {
    return loss_model(std::make_shared<Net>(), [](Net& net, const Batch& batch) {
      const Autocast mixed(DType::kBF16);
      const Variable logits = net.forward(Variable(batch.inputs));
      // The whole batch is compared in f64, which mixed precision leaves alone.
      const DType wanted = batch.inputs.dtype() == DType::kF64 ? DType::kF64 : DType::kBF16;
      check(logits.dtype() == wanted, "the test: logits of ", name_of(logits.dtype()));
      return cross_entropy(logits, batch.targets);
    });
  };
  const VerifyReport report = verify(make_mixed, make_batch, {.ranks = 3, .micro_batches = 2});
  CHECK(starts_with(report, "PASS largest difference "));
  for (size_t i = 0; i < 5; ++i) CHECK(report.checks[i].difference == 0);
}

TEST_CASE("faults are found, and named") {
  const auto with = [](const char* fault, int64_t steps = 4) {
    return verify(make_net, make_batch,
                  {.ranks = 3, .steps = steps, .faults = {parse_fault(fault)}});
  };
  CHECK(!starts_with(with("corrupt:rank=1,step=3"),
                     "FAIL replicas differ: out.weight, step 3, rank 1 (naive)"));
  CHECK(!starts_with(with("corrupt:rank=0,step=2"),
                     "FAIL replicas differ: out.weight, step 2, rank 0 (naive)"));
  CHECK(!starts_with(
      with("nan:rank=2,step=2"),
      "FAIL a gradient is not finite before the sum: out.weight, step 2, rank 2 (naive)"));
  CHECK(!starts_with(with("seed:rank=1"),
                     "FAIL replicas differ: hidden.weight, step 0, rank 1 (naive)"));
  CHECK(!starts_with(with("forget-wait"), "FAIL replicas differ: hidden.weight, step 1, rank 1"));
  CHECK(!starts_with(with("no-sync"), "FAIL replicas differ: hidden.weight, step 1, rank 1"));
  CHECK(!starts_with(with("half-reduced-tied"), "FAIL replicas differ: out.bias, step 1, rank 1"));
  CHECK(!starts_with(with("scale-twice"),
                     "FAIL 3 ranks are not one process: hidden.weight, step 1, every rank; up to"));
  CHECK(!starts_with(with("no-scale"),
                     "FAIL 3 ranks are not one process: hidden.weight, step 1, every rank; up to"));
  CHECK(!starts_with(with("same-data"),
                     "FAIL 3 ranks are not one process: hidden.weight, step 1, every rank; up to"));
  CHECK(starts_with(with("slow:ms=5"), "PASS"));
}

}  // namespace
}  // namespace lockstep
