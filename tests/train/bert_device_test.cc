// BERT with all that a step has, on the simulated device (tests/support/sim_device.h) as on the
// CPU.
#include "lockstep/autograd/autocast.h"
#include "lockstep/autograd/ops/elementwise.h"
#include "lockstep/optim/adam.h"
#include "lockstep/optim/clip.h"
#include "lockstep/optim/ema.h"
#include "lockstep/optim/lamb.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tests/support/gradcheck.h"
#include "lockstep/tests/support/sim_device.h"
#include "lockstep/train/bert_task.h"
#include "lockstep/train/meter.h"

#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace lockstep {
namespace {

using std::chrono::microseconds;
using testing::relative_difference;
using testing::SimDevice;

TextBatch batch_of(int64_t length) {
  std::vector<int64_t> ids, types;
  std::vector<uint8_t> padding;
  for (int64_t i = 0; i < 3 * length; ++i) {
    ids.push_back(5 + i * i % 40);
    types.push_back(i % length > length / 2 ? 1 : 0);
    padding.push_back(i / length == 1 && i % length > 7 ? 1 : 0);
  }
  return {.ids = Tensor::from(ids, {3, length}),
          .types = Tensor::from(types, {3, length}),
          .padding = Tensor::from(padding, {3, length}),
          .masked_positions = Tensor::from<int64_t>({1, 4, 13, 25}, {4}),
          .masked_labels = Tensor::from<int64_t>({9, 7, 30, 44}, {4}),
          .labels = Tensor::from<int64_t>({0, 1, 1}, {3}),
          .tokens = 3 * length - 4};
}

struct Result {
  std::vector<Tensor> weights, averages;
  std::array<double, 3> sums;
};

Result train(Device device, DType precision, bool lamb) {
  Generator rng(3);
  BertForPreTraining model({.vocab_size = 48,
                            .hidden_size = 32,
                            .num_hidden_layers = 2,
                            .num_attention_heads = 2,
                            .intermediate_size = 64,
                            .max_position_embeddings = 16},
                           rng, /*next_sentence=*/true);
  model.to(device);
  std::unique_ptr<Optimizer> optimizer;
  if (lamb) {
    optimizer = std::make_unique<Lamb>(model.named_parameters(), LambOptions{.lr = 1e-2});
  } else {
    optimizer = std::make_unique<AdamW>(model.named_parameters(), AdamWOptions{.lr = 1e-2});
  }
  Ema ema(model.named_parameters(), {.decay = 0.5});
  Meter meter;
  const Autocast autocast(precision);
  for (int step = 0; step < 3; ++step) {
    optimizer->zero_grad();
    const BatchResult result = pretraining_result(model, to_device(batch_of(12), device));
    (result.loss + result.second.loss).backward();
    meter.add(result.loss.data(), result.correct, result.counted);
    clip_grad_norm(model.parameters(), 0.5);
    optimizer->step();
    ema.update();
  }
  Result out{.weights = {}, .averages = {}, .sums = meter.sums()};
  for (const NamedTensor& entry : model.state_dict()) {
    out.weights.push_back(ops::clone(ops::to_device(entry.tensor, Device::cpu())));
  }
  for (const NamedTensor& entry : ema.state()) {
    out.averages.push_back(ops::clone(ops::to_device(entry.tensor, Device::cpu())));
  }
  return out;
}

TEST_CASE("BERT with dropout, clipping, moving averages and both optimizers on a device") {
  for (const DType precision : {DType::kF32, DType::kBF16}) {
    for (const bool lamb : {false, true}) {
      const std::string name = name_of(precision);
      CAPTURE(name);
      CAPTURE(lamb);
      const Result wanted = train(Device::cpu(), precision, lamb);
      const SimDevice device({.compute = {microseconds(0), microseconds(20)}, .side = {}});
      const Result got = train(Device::cuda(), precision, lamb);
      REQUIRE(got.weights.size() == wanted.weights.size());
      // The same kernels in the same order.
      for (size_t i = 0; i < got.weights.size(); ++i) {
        CHECK(relative_difference(got.weights[i], wanted.weights[i]) == 0);
      }
      REQUIRE(got.averages.size() == wanted.averages.size());
      for (size_t i = 0; i < got.averages.size(); ++i) {
        CHECK(relative_difference(got.averages[i], wanted.averages[i]) == 0);
      }
      CHECK(got.sums == wanted.sums);
    }
  }
}

}  // namespace
}  // namespace lockstep
