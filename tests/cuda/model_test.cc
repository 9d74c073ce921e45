// Whole models: what a step computes on cuda equals what it computes on the CPU.
#include "lockstep/autograd/autocast.h"
#include "lockstep/autograd/ops/loss.h"
#include "lockstep/models/bert.h"
#include "lockstep/models/resnet.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tests/cuda/device.h"
#include "lockstep/tests/models/small_bert.h"
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace lockstep {
namespace {

using namespace testing;

/// The loss, and the gradient of each parameter, and the buffers, on the CPU.
std::vector<NamedTensor> results_of(const Variable& loss, const Module& model) {
  loss.backward();
  std::vector<NamedTensor> results{{"loss", to_cpu(loss.data())}};
  for (const auto& [name, parameter] : model.named_parameters()) {
    REQUIRE_MESSAGE(parameter.grad().has_value(), name);
    results.push_back({name, to_cpu(*parameter.grad())});
  }
  for (const auto& [name, buffer] : model.named_buffers()) {
    if (is_computable(buffer.dtype())) results.push_back({name, to_cpu(buffer)});
  }
  return results;
}

double largest(const Tensor& x) {
  double most = 0;
  for (const double v : ops::cast(x, DType::kF64).to_vector<double>())
    most = std::max(most, std::abs(v));
  return most;
}

void check_all(const std::vector<NamedTensor>& got, const std::vector<NamedTensor>& wanted,
               double tolerance) {
  REQUIRE(got.size() == wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    INFO(wanted[i].name);
    CHECK(got[i].name == wanted[i].name);
    // The bias of the keys has a gradient of 0 but for rounding: softmax does not see it.
    const double size = largest(wanted[i].tensor);
    CHECK(relative_difference(got[i].tensor, wanted[i].tensor) * size / std::max(size, 1e-3) <=
          tolerance);
  }
}

std::vector<NamedTensor> resnet_on(Device device, DType dtype) {
  Generator rng(1);
  const ResNetArchitecture architecture{
      .blocks = {1, 1}, .widths = {6, 10}, .stem = ResNetStem::kImageNet};
  ResNet model(architecture, {.classes = 5, .in_channels = 2}, rng);
  model.to(dtype);
  model.to(device);
  const Tensor images = random_tensor({3, 17, 16, 2}, 2, -1, 1, dtype);
  const Tensor labels = Tensor::from<int64_t>({4, 0, 2}, {3});
  const Variable logits = model(Variable(ops::to_device(images, device)));
  return results_of(cross_entropy(logits, ops::to_device(labels, device)), model);
}

TEST_CASE("a ResNet on cuda: loss, gradients and running statistics equal the CPU's") {
  on_cuda_device([] {
    // Each normalisation enlarges rounding, over the few samples here.
    check_all(resnet_on(Device::cuda(), DType::kF64), resnet_on(Device::cpu(), DType::kF64), 1e-11);
    check_all(resnet_on(Device::cuda(), DType::kF32), resnet_on(Device::cpu(), DType::kF32), 2e-4);
    const Autocast mixed(DType::kBF16);  // what was rounded differently goes on through the layers
    check_all(resnet_on(Device::cuda(), DType::kF32), resnet_on(Device::cpu(), DType::kF32), 3e-2);
  });
}

std::vector<NamedTensor> bert_on(Device device, DType dtype) {
  Generator rng(1);
  BertConfig config = small_bert_config();
  config.hidden_dropout_prob = 0.1;
  config.attention_probs_dropout_prob = 0.2;
  BertForPreTraining model(config, rng);
  model.to(dtype);
  model.to(device);
  const SmallBatch batch(3, 11, 7);
  const auto on = [&](const Tensor& t) { return ops::to_device(t, device); };
  const BertPreTrainingOutput output = model({.ids = on(batch.input.ids),
                                              .types = on(batch.input.types),
                                              .padding = on(batch.input.padding)},
                                             on(batch.masked_positions));
  return results_of(bert_pretraining_loss(output, on(batch.masked_labels), on(batch.next_labels)),
                    model);
}

TEST_CASE("a BERT on cuda, with dropout: loss and gradients equal the CPU's") {
  on_cuda_device([] {
    check_all(bert_on(Device::cuda(), DType::kF64), bert_on(Device::cpu(), DType::kF64), 1e-11);
    check_all(bert_on(Device::cuda(), DType::kF32), bert_on(Device::cpu(), DType::kF32), 1e-4);
    const Autocast mixed(DType::kBF16);
    check_all(bert_on(Device::cuda(), DType::kF32), bert_on(Device::cpu(), DType::kF32), 3e-2);
  });
}

}  // namespace
}  // namespace lockstep
