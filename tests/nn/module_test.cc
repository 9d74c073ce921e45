#include "lockstep/nn/module.h"

#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tests/support/sim_device.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace lockstep {
namespace {

using Names = std::vector<std::string>;

Variable parameter(double value, const Shape& shape = {2}) {
  return Variable(ops::full(shape, value, DType::kF32), true);
}

struct Part : Module {
  Variable weight;
  Tensor count = Tensor::zeros({}, DType::kI64);
  Tensor mean = Tensor::zeros({2}, DType::kF32);
  explicit Part(Variable w) : weight(std::move(w)) {
    register_buffer("count", count);
    register_parameter("weight", weight);
    register_buffer("mean", mean);
  }
};

struct Whole : Module {
  Variable scale = parameter(3, {1});
  Part first{parameter(1)};
  Part second{parameter(2)};
  Part tied{first.weight};
  Whole() {
    register_module("first", first);
    register_module("second", second);
    register_module("tied", tied);
    register_module("again", second);
    register_parameter("scale", scale);
  }
  using Module::register_buffer;
  using Module::register_module;
  using Module::register_parameter;
};

template <class List>
Names names(const List& list) {
  Names out;
  for (const auto& entry : list) out.push_back(entry.name);
  return out;
}

TEST_CASE("for_each_module visits every module once, the outer one first") {
  Whole m;
  std::vector<Module*> seen;
  m.for_each_module([&](Module& part) { seen.push_back(&part); });
  CHECK(seen == std::vector<Module*>{&m, &m.first, &m.second, &m.tied});
}

TEST_CASE("names are dotted and in the order of registration; a shared parameter is listed once") {
  const Whole m;
  CHECK(names(m.named_parameters()) == Names{"scale", "first.weight", "second.weight"});
  CHECK(names(m.named_buffers()) == Names{"first.count", "first.mean", "second.count",
                                          "second.mean", "tied.count", "tied.mean"});
  CHECK(names(m.state_dict()) == Names{"scale", "first.weight", "first.count", "first.mean",
                                       "second.weight", "second.count", "second.mean", "tied.count",
                                       "tied.mean"});
  CHECK(m.parameters()[1].is(m.first.weight));
}

TEST_CASE("listed buffers are the buffers, also after a conversion") {
  Whole m;
  m.to(DType::kF64);
  CHECK(m.first.weight.dtype() == DType::kF64);
  CHECK(m.tied.weight.is(m.first.weight));
  CHECK(m.first.mean.dtype() == DType::kF64);
  CHECK(m.first.count.dtype() == DType::kI64);
  Tensor listed = m.named_buffers()[1].buffer;
  ops::fill(listed, 5);
  CHECK(m.first.mean.to_vector<double>() == std::vector<double>{5, 5});
  CHECK_THROWS_AS(m.to(DType::kI64), ArgumentError);
}

TEST_CASE("a module moves to a device and back; whole numbers stay on the host") {
  const testing::SimDevice device;
  Whole m;
  const std::vector<float> before = m.first.weight.data().to_vector<float>();
  m.to(Device::cuda());
  CHECK(m.first.weight.device() == Device::cuda());
  CHECK(m.tied.weight.is(m.first.weight));
  CHECK(m.first.mean.device() == Device::cuda());
  CHECK(m.first.count.device() == Device::cpu());
  m.to(Device::cpu());
  CHECK(m.first.weight.data().to_vector<float>() == before);
}

TEST_CASE("train and eval reach every part") {
  Whole m;
  CHECK(m.second.training());
  m.eval();
  CHECK(!m.training());
  CHECK(!m.second.training());
  m.train();
  CHECK(m.second.training());
}

TEST_CASE("bad names are refused") {
  Whole m;
  CHECK_THROWS_AS(m.register_parameter("a.b", m.scale), ArgumentError);
  CHECK_THROWS_AS(m.register_parameter("", m.scale), ArgumentError);
  CHECK_THROWS_AS(m.register_parameter("first", m.scale), ArgumentError);
  CHECK_THROWS_AS(m.register_parameter("none", Variable()), ArgumentError);
  CHECK_THROWS_AS(m.register_module("self", m), ArgumentError);
  Tensor undefined;
  CHECK_THROWS_AS(m.register_buffer("buffer", undefined), ArgumentError);
}

std::vector<NamedTensor> copied_state(const Module& m) {
  std::vector<NamedTensor> state;
  for (const auto& [name, tensor] : m.state_dict()) state.push_back({name, ops::clone(tensor)});
  return state;
}

TEST_CASE("a state dict carries everything over, in place") {
  Whole a, b;
  ops::fill(a.first.weight.mutable_data(), 11);
  ops::fill(a.second.count, 12);
  const Tensor before = b.first.weight.data();
  b.load_state_dict(copied_state(a));
  CHECK(b.first.weight.data().shares_memory(before));
  CHECK(before.to_vector<float>() == std::vector<float>{11, 11});
  CHECK(b.second.count.item() == 12);

  // Other names of a shared parameter are known, and floats convert.
  auto state = copied_state(a);
  state.push_back({"tied.weight", state[1].tensor});
  state[1].tensor = ops::full({2}, 4, DType::kF64);
  b.load_state_dict(state);
  CHECK(before.to_vector<float>() == std::vector<float>{4, 4});
}

TEST_CASE("a state dict that does not fit changes nothing and says what differs") {
  Whole m;
  auto state = copied_state(m);
  ops::fill(state[1].tensor, 9);
  state.push_back({"extra", state[0].tensor});
  CHECK_THROWS_WITH_AS(m.load_state_dict(state), doctest::Contains("1 unexpected (extra)"),
                       ArgumentError);
  state.pop_back();
  state.erase(state.begin());
  CHECK_THROWS_WITH_AS(m.load_state_dict(state), doctest::Contains("1 missing (scale)"),
                       ArgumentError);
  CHECK(m.first.weight.data().to_vector<float>() == std::vector<float>{1, 1});
  m.load_state_dict(state, {.strict = false});
  CHECK(m.first.weight.data().to_vector<float>() == std::vector<float>{9, 9});

  state[0].tensor = Tensor::zeros({3}, DType::kF32);
  CHECK_THROWS_WITH_AS(m.load_state_dict(state, {.strict = false}),
                       doctest::Contains("first.weight: wanted [2], got [3]"), ArgumentError);
  state[0].tensor = Tensor::zeros({2}, DType::kI64);
  CHECK_THROWS_WITH_AS(m.load_state_dict(state, {.strict = false}),
                       doctest::Contains("wanted f32, got i64"), ArgumentError);
  CHECK_THROWS_WITH_AS(m.load_state_dict({}), doctest::Contains("9 missing (scale, first.weight"),
                       ArgumentError);
}

}  // namespace
}  // namespace lockstep
