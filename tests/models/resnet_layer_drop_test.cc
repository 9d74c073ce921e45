#include "lockstep/distributed/comm/thread_group.h"
#include "lockstep/models/resnet.h"
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>
#include <omp.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace lockstep {
namespace {

using testing::random_tensor;

/// Four blocks, of which three keep the shape: layer1.0 (no change of shape), layer1.1, layer2.1.
const ResNetArchitecture kNet{ResNetBlock::kBasic, {2, 2}, {4, 6}, ResNetStem::kCifar};

ResNet make(double layer_drop, uint64_t seed = 3, const ResNetArchitecture& a = kNet) {
  Generator rng(1);
  return ResNet(a, {.classes = 5, .layer_drop = layer_drop, .layer_drop_seed = seed}, rng);
}

Variable images() { return Variable(random_tensor({2, 6, 6, 3}, 1, -1, 1, DType::kF32)); }

/// The blocks that a forward and backward left without a gradient: "layer1.1".
std::set<std::string> step(ResNet& net) {
  omp_set_num_threads(1);  // on a busy machine waking a second takes longer than the whole step
  net.zero_grad();
  const Variable y = net(images());
  y.backward(random_tensor(y.shape(), 2, -1, 1, DType::kF32));
  std::set<std::string> skipped;
  for (const auto& [name, parameter] : net.named_parameters()) {
    if (!parameter.grad()) skipped.insert(name.substr(0, name.find('.', name.find('.') + 1)));
  }
  return skipped;
}

TEST_CASE("blocks that keep the shape are skipped whole, as often as asked, and no others") {
  ResNet net = make(0.3);
  std::set<std::string> seen;
  int dropped = 0;
  constexpr int kSteps = 200;
  for (int i = 0; i < kSteps; ++i) {
    const auto skipped = step(net);
    dropped += static_cast<int>(skipped.size());
    seen.insert(skipped.begin(), skipped.end());
  }
  CHECK(seen == std::set<std::string>{"layer1.0", "layer1.1", "layer2.1"});
  CHECK(dropped / (3.0 * kSteps) == doctest::Approx(0.3).epsilon(0.2));
  // A bottleneck's first block widens, so only the second fits.
  ResNet wide = make(0.9, 3, {ResNetBlock::kBottleneck, {2}, {4}, ResNetStem::kCifar});
  seen.clear();
  for (int i = 0; i < 20; ++i) {
    for (const auto& name : step(wide)) seen.insert(name);
  }
  CHECK(seen == std::set<std::string>{"layer1.1"});
}

TEST_CASE("all ranks skip the same blocks") {
  std::vector<std::vector<std::set<std::string>>> skipped(3);
  spawn(3, [&](ProcessGroup& group) {
    ResNet net = make(0.5);
    for (int i = 0; i < 20; ++i) skipped[static_cast<size_t>(group.rank())].push_back(step(net));
  });
  CHECK(skipped[1] == skipped[0]);
  CHECK(skipped[2] == skipped[0]);
  CHECK(std::set(skipped[0].begin(), skipped[0].end()).size() > 3);
}

TEST_CASE("evaluation runs every block, unscaled; off, nothing differs") {
  ResNet net = make(0.9), plain = make(0);
  net.eval();
  plain.eval();
  const auto expected = plain(images()).data().to_vector<float>();
  for (int i = 0; i < 5; ++i) CHECK(net(images()).data().to_vector<float>() == expected);

  Generator rng(1);
  ResNet unnamed(kNet, {.classes = 5}, rng);
  const auto before = unnamed.state_dict(), with_zero = plain.state_dict();
  REQUIRE(before.size() == with_zero.size());
  for (size_t i = 0; i < before.size(); ++i) CHECK(before[i].name == with_zero[i].name);
  plain.train();
  CHECK(step(plain).empty());
  CHECK(plain(images()).data().to_vector<float>() == unnamed(images()).data().to_vector<float>());
}

TEST_CASE("the counter is in the state, and a loaded model goes on where it was") {
  ResNet net = make(0.5), resumed = make(0.5);
  CHECK(net.state_dict().back().name == "layer_drop.forwards");
  for (int i = 0; i < 7; ++i) step(net);
  resumed.load_state_dict(net.state_dict());
  for (int i = 0; i < 10; ++i) CHECK(step(resumed) == step(net));
}

TEST_CASE("probabilities outside [0, 1) are refused") {
  CHECK_THROWS_AS(make(1), ArgumentError);
  CHECK_THROWS_AS(make(-0.5), ArgumentError);
}

}  // namespace
}  // namespace lockstep
