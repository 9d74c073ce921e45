// Steps that are captured and replayed have the bits of steps that the host runs: parameters,
// optimizer state, averages, buffers, losses, generators.
#include "lockstep/autograd/autocast.h"
#include "lockstep/autograd/ops/dropout.h"
#include "lockstep/autograd/ops/loss.h"
#include "lockstep/models/bert.h"
#include "lockstep/models/resnet.h"
#include "lockstep/optim/adam.h"
#include "lockstep/optim/clip.h"
#include "lockstep/optim/ema.h"
#include "lockstep/optim/flatten.h"
#include "lockstep/optim/lamb.h"
#include "lockstep/optim/schedule.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/tensor/captured_step.h"
#include "lockstep/tensor/memory.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tensor/ops/optimizer.h"
#include "lockstep/tests/cuda/device.h"
#include "lockstep/tests/models/small_bert.h"
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {
namespace {

using namespace testing;

/// A model in training, whatever it is.
struct Training {
  std::shared_ptr<Module> model;
  std::function<Variable(int64_t rows)> loss;  // of the batch that `place` was called with
  std::function<void(int64_t step, int64_t rows)> place;  // into tensors that stay where they are
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<Ema> ema;
  double clip = 0;  // above 0: gradients are clipped
  std::shared_ptr<Generator> rng = std::make_shared<Generator>(7);
};

/// All that a step changes, on the host.
struct State {
  std::vector<NamedTensor> model, optimizer, ema;
  OptimizerState of_optimizer;
  Generator::State rng;
};

std::vector<NamedTensor> copies(const std::vector<NamedTensor>& tensors) {
  std::vector<NamedTensor> out;
  for (const auto& [name, tensor] : tensors) out.push_back({name, ops::clone(to_cpu(tensor))});
  return out;
}

State state_of(Training& t) {
  State state{copies(t.model->state_dict()),
              {},
              copies(t.ema->state()),
              t.optimizer->state(),
              t.rng->state()};
  state.of_optimizer.tensors = copies(state.of_optimizer.tensors);
  state.optimizer = state.of_optimizer.tensors;
  return state;
}

void load(Training& t, const State& state) {
  t.model->load_state_dict(state.model);
  t.optimizer->load_state(state.of_optimizer);
  t.ema->load_state(state.ema);
  t.rng->set_state(state.rng);
}

void check_equal(const std::vector<NamedTensor>& got, const std::vector<NamedTensor>& wanted) {
  REQUIRE(got.size() == wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    INFO(wanted[i].name);
    REQUIRE(got[i].tensor.nbytes() == wanted[i].tensor.nbytes());
    CHECK(std::memcmp(got[i].tensor.raw(), wanted[i].tensor.raw(), wanted[i].tensor.nbytes()) == 0);
  }
}

void check_equal(const State& got, const State& wanted) {
  check_equal(got.model, wanted.model);
  check_equal(got.optimizer, wanted.optimizer);
  check_equal(got.ema, wanted.ema);
  CHECK(got.rng == wanted.rng);
}

constexpr int64_t kRows = 3, kSteps = 8, kShort = 4, kSaved = 6;

/// Steps [begin, kSteps), of which kShort has a row less; what `saved` gets is the state before
/// step kSaved. Returns the losses.
std::vector<float> train(Training& t, bool capture, int64_t begin = 0, State* saved = nullptr) {
  const Device device = Device::cuda();
  std::optional<CapturedStep> captured;
  if (capture) captured.emplace(device);
  const Schedule schedule = warmup_linear_schedule(3, 2 * kSteps);
  std::vector<float> losses;
  Tensor loss;  // once a step is captured, its own
  int64_t replays = 0;
  for (int64_t step = begin; step < kSteps; ++step) {
    if (saved != nullptr && step == kSaved) *saved = state_of(t);
    const int64_t rows = step == kShort ? kRows - 1 : kRows;
    t.place(step, rows);
    const auto step_with = [&](Tensor& to) {
      t.optimizer->zero_grad();
      const Variable value = t.loss(rows);
      value.backward();
      if (t.clip > 0) clip_grads(t.model->named_parameters(), t.clip);
      to = value.data();
    };
    const auto update = [&] {
      t.optimizer->set_lr_factor(schedule(step));
      t.optimizer->step();
      t.ema->update();
    };
    if (!capture || rows != kRows) {
      Tensor own;
      step_with(own);
      update();
      losses.push_back(*to_cpu(own).data<float>());
    } else {
      captured->run([&] { step_with(loss); }, update);
      replays += captured->captured();
      losses.push_back(*to_cpu(loss).data<float>());
      if (!captured->captured()) loss = Tensor();
    }
  }
  if (capture && begin == 0) CHECK(replays >= kSteps - 5);
  return losses;
}

/// In one run, in a captured one, and in one that goes on from what the captured one saved.
void check_capture(const std::function<Training()>& make) {
  Training eager = make(), captured = make(), resumed = make();
  State saved;
  const std::vector<float> wanted = train(eager, false);
  CHECK(train(captured, true, 0, &saved) == wanted);
  check_equal(state_of(captured), state_of(eager));
  load(resumed, saved);
  CHECK(train(resumed, true, kSaved) == std::vector<float>(wanted.begin() + kSaved, wanted.end()));
  check_equal(state_of(resumed), state_of(eager));
}

void put(const Tensor& from, Tensor& to) {
  device_memory(to.device()).copy(to.mutable_raw(), from.raw(), from.nbytes());
}

/// In arenas, as in data-parallel training, so that a pass covers many parameters.
void prepare(Training& t) {
  t.model->to(Device::cuda());
  std::vector<Variable> parameters = t.model->parameters();
  move_into_arena(parameters);
  bind_gradients_to_arena(parameters);
  t.ema =
      std::make_unique<Ema>(t.model->named_parameters(), EmaOptions{.decay = 0.9, .warmup = true});
}

Training small_resnet() {
  Generator init(1);
  const ResNetArchitecture architecture{.blocks = {1}, .widths = {4}, .stem = ResNetStem::kCifar};
  auto model =
      std::make_shared<ResNet>(architecture, ResNetOptions{.classes = 3, .in_channels = 1}, init);
  Training t;
  t.model = model;
  prepare(t);
  t.optimizer = std::make_unique<Sgd>(
      model->named_parameters(),
      SgdOptions{.lr = 0.1, .momentum = 0.9, .dampening = 0.2, .weight_decay = 0.01});
  auto images =
      std::make_shared<Tensor>(Tensor::zeros({kRows, 5, 4, 1}, DType::kF32, Device::cuda()));
  auto labels = std::make_shared<Tensor>(Tensor::zeros({kRows}, DType::kI64, Device::cuda()));
  t.place = [=](int64_t step, int64_t) {
    put(random_tensor({kRows, 5, 4, 1}, static_cast<uint64_t>(step), -1, 1, DType::kF32), *images);
    put(Tensor::from<int64_t>({step % 3, 2, (step + 1) % 2}, {kRows}), *labels);
  };
  t.loss = [=](int64_t rows) {
    return cross_entropy((*model)(Variable(images->slice(0, rows))), labels->slice(0, rows));
  };
  return t;
}

Training bert(bool lamb) {
  BertConfig config = small_bert_config();
  config.num_hidden_layers = 1;
  config.hidden_size = config.intermediate_size = 16;
  config.num_attention_heads = 2;
  config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.1;
  auto rng = std::make_shared<Generator>(3);
  auto model = std::make_shared<BertForPreTraining>(config, *rng);
  Training t;
  t.model = model;
  t.clip = 0.5;
  t.rng = rng;
  prepare(t);
  if (lamb) {
    t.optimizer = std::make_unique<Lamb>(model->named_parameters(), LambOptions{.lr = 1e-2});
  } else {
    t.optimizer = std::make_unique<AdamW>(model->named_parameters(), AdamWOptions{.lr = 1e-2});
  }
  const SmallBatch shape(kRows, 6, 7);
  struct Place {
    Tensor ids, types, padding, positions, labels, next;
  };
  const auto there = std::make_shared<Place>(Place{
      to_cuda(shape.input.ids), to_cuda(shape.input.types), to_cuda(shape.input.padding),
      to_cuda(shape.masked_positions), to_cuda(shape.masked_labels), to_cuda(shape.next_labels)});
  t.place = [=](int64_t step, int64_t) {
    const SmallBatch batch(kRows, 6, 7 + static_cast<uint64_t>(step));
    put(batch.input.ids, there->ids);
    put(batch.input.padding, there->padding);
  };
  t.loss = [=](int64_t rows) {
    const Place& p = *there;
    const auto out = (*model)({.ids = p.ids.slice(0, rows),
                               .types = p.types.slice(0, rows),
                               .padding = p.padding.slice(0, rows)},
                              p.positions.slice(0, 2));
    return bert_pretraining_loss(out, p.labels.slice(0, 2), p.next.slice(0, rows));
  };
  return t;
}

TEST_CASE("a captured ResNet: SGD with momentum, a schedule, batch norm, averages") {
  on_cuda_device([] { check_capture(small_resnet); });
}

TEST_CASE("a captured BERT: AdamW after a warm-up, dropout, clipping") {
  on_cuda_device([] { check_capture([] { return bert(false); }); });
}

TEST_CASE("a captured BERT in mixed precision, by LAMB") {
  on_cuda_device([] {
    const Autocast mixed(DType::kBF16);
    check_capture([] { return bert(true); });
  });
}

TEST_CASE("what is captured runs in the replay alone, each time") {
  on_cuda_device([] {
    Tensor x = to_cuda(Tensor::from<float>({1, 2}, {2}));
    const auto stream = device_streams(x.device()).create(StreamPriority::kNormal);
    const StreamGuard guard(x.device(), *stream);
    std::unique_ptr<DeviceGraph> graph;
    {
      GraphCapture capture(*stream);
      ops::scale(x, 2);
      graph = capture.finish();
    }
    CHECK(to_cpu(x).to_vector<float>() == std::vector<float>{1, 2});
    graph->replay(*stream);
    graph->replay(*stream);
    CHECK(to_cpu(x).to_vector<float>() == std::vector<float>{4, 8});
  });
}

TEST_CASE(
    "within a capture the host neither copies nor gets new memory, and may go on afterwards") {
  on_cuda_device([] {
    Tensor x = to_cuda(Tensor::from<float>({1, 2}, {2}));
    const auto stream = device_streams(x.device()).create(StreamPriority::kNormal);
    const StreamGuard guard(x.device(), *stream);
    const auto refused = [&](const std::function<void()>& fn) {
      GraphCapture capture(*stream);
      CHECK_THROWS_AS(fn(), Error);
    };
    refused([&] { to_cpu(x); });
    refused([&] { to_cuda(Tensor::from<float>({1}, {1})); });
    refused([&] { Tensor::empty({1000}, DType::kF32, x.device()); });
    CHECK(to_cpu(x).to_vector<float>() == std::vector<float>{1, 2});
  });
}

TEST_CASE("a step that does not repeat itself is found") {
  on_cuda_device([] {
    Tensor x = to_cuda(Tensor::from<float>({1, 2}, {2}));
    const Tensor grad = to_cuda(Tensor::from<float>({1, 1}, {2}));
    CapturedStep captured(x.device());
    int updates = 1;
    Tensor velocity;
    const auto run = [&] {
      captured.run([&] { ops::scale(x, 2); },
                   [&] {
                     for (int i = 0; i < updates; ++i) {
                       ops::sgd_step(x, grad, velocity, {.lr = 0.5});
                     }
                   });
    };
    while (!captured.captured()) run();
    updates = 2;
    CHECK_THROWS_AS(run(), Error);
    updates = 0;
    CHECK_THROWS_AS(run(), Error);
  });
}

}  // namespace
}  // namespace lockstep
