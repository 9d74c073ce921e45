#include "lockstep/nn/layer_drop.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

namespace lockstep {
namespace {

constexpr int64_t kLayers = 12;

std::vector<bool> decisions(LayerDrop& drop, int forwards) {
  std::vector<bool> list;
  for (int i = 0; i < forwards; ++i) {
    drop.begin_forward();
    for (int64_t layer = 0; layer < kLayers; ++layer) list.push_back(drop.drops(layer));
  }
  return list;
}

int64_t forwards_of(const LayerDrop& drop) {
  return *drop.named_buffers()[0].buffer.data<int64_t>();
}

TEST_CASE("one seed gives one list of decisions, another seed another; asking twice changes none") {
  LayerDrop a(0.3, 5), b(0.3, 5), c(0.3, 6);
  const auto list = decisions(a, 50);
  CHECK(decisions(b, 50) == list);
  CHECK(decisions(c, 50) != list);
  for (int64_t layer = 0; layer < kLayers; ++layer)
    CHECK(a.drops(layer) == list[list.size() - kLayers + static_cast<size_t>(layer)]);
}

TEST_CASE("layers are dropped as often as asked, each on its own") {
  constexpr int kForwards = 4000;
  for (const double p : {0.1, 0.5, 0.9}) {
    LayerDrop drop(p, 1);
    const auto list = decisions(drop, kForwards);
    // Six standard deviations of a share of kForwards throws: one false alarm in 10^8.
    const double slack = 6 * std::sqrt(p * (1 - p) / kForwards);
    for (size_t layer = 0; layer < kLayers; ++layer) {
      int dropped = 0, with_next = 0, repeated = 0;
      for (size_t n = layer; n + kLayers < list.size(); n += kLayers) {
        dropped += list[n];
        with_next += list[n] == list[n - layer + (layer + 1) % kLayers];
        repeated += list[n] == list[n + kLayers];
      }
      CHECK(std::abs(static_cast<double>(dropped) / kForwards - p) <= slack);
      // Two independent throws agree with probability p^2 + (1 - p)^2.
      const double agree = p * p + (1 - p) * (1 - p);
      CHECK(std::abs(static_cast<double>(with_next) / kForwards - agree) <= 0.05);
      CHECK(std::abs(static_cast<double>(repeated) / kForwards - agree) <= 0.05);
    }
  }
}

TEST_CASE("evaluation drops nothing and counts nothing; probability 0 drops nothing") {
  LayerDrop drop(0.9, 1);
  drop.eval();
  CHECK(decisions(drop, 20) == std::vector<bool>(20 * kLayers, false));
  CHECK(forwards_of(drop) == 0);
  drop.train();
  CHECK(decisions(drop, 3) != std::vector<bool>(3 * kLayers, false));
  CHECK(forwards_of(drop) == 3);
  LayerDrop off(0, 1);
  CHECK(decisions(off, 20) == std::vector<bool>(20 * kLayers, false));
}

TEST_CASE("a loaded counter goes on with the same decisions") {
  LayerDrop whole(0.4, 9), first(0.4, 9), second(0.4, 9);
  const auto list = decisions(whole, 20);
  decisions(first, 12);
  second.load_state_dict(first.state_dict());
  CHECK(decisions(second, 8) == std::vector<bool>(list.begin() + 12 * kLayers, list.end()));
}

TEST_CASE("probabilities that are refused") {
  for (const double p : {-0.1, 1.0, 1.5, std::nan("")})
    CHECK_THROWS_WITH_AS(LayerDrop(p, 1), doctest::Contains("0 <= p < 1"), ArgumentError);
}

}  // namespace
}  // namespace lockstep
