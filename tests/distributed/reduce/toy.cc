#include "lockstep/tests/distributed/reduce/toy.h"

#include "lockstep/autograd/record.h"
#include "lockstep/distributed/comm/thread_group.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tensor/random.h"
#include "lockstep/tests/support/gradcheck.h"
#include "lockstep/tests/support/random_delay.h"

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>

namespace lockstep::testing {

Variable add_term(const Variable& total, const Variable& parameter, const Tensor& coefficients) {
  return record("add_term", Tensor::zeros({}, DType::kF64), {total, parameter},
                [coefficients](const Tensor& grad, GradSink& sink) {
                  if (sink.wants(0)) sink.give(0, grad);
                  if (!sink.wants(1)) return;
                  Dest dest = sink.dest(1);
                  if (!dest.accumulate) ops::fill(dest.out, 0.0);
                  ops::add_scaled(coefficients, grad.item(), dest.out);
                });
}

Toy::Toy(int rank, bool mixed, Device device) : rank(rank), device(device) {
  for (int i = 0; i < kParams; ++i) {
    const DType dtype = mixed && i % 3 == 1 ? DType::kF32 : DType::kF64;
    const Shape shape = mixed ? Shape{i + 1, 3} : Shape{5};
    params.push_back({str("p", i), Variable(Tensor::zeros(shape, dtype, device), true)});
    specs.push_back({params.back().name, shape, dtype});
    register_parameter(params.back().name, params.back().parameter);
  }
}

Tensor Toy::coefficients(const ParamSpec& spec, int rank, int step) {
  const uint64_t seed =
      std::hash<std::string>{}(spec.name) + static_cast<uint64_t>(1000 * rank + step);
  return random_tensor(spec.shape, seed, -1, 1, spec.dtype);
}

Variable Toy::loss(int step, const std::vector<int>& order) const {
  Variable total(Tensor::zeros({}, DType::kF64));
  for (int i : order) {
    const auto k = static_cast<size_t>(i);
    total = add_term(total, params[k].parameter,
                     ops::to_device(coefficients(specs[k], rank, step), device));
  }
  return total;
}

std::vector<int> Toy::all() {
  std::vector<int> order(kParams);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

std::vector<int> Toy::all_but(const std::vector<int>& unused) {
  std::vector<int> order = all();
  for (int i : unused) std::erase(order, i);
  return order;
}

std::optional<Tensor> Toy::grad(int param) const {
  const auto grad = params[static_cast<size_t>(param)].parameter.grad();
  if (!grad) return std::nullopt;
  return ops::to_device(*grad, Device::cpu());
}

Tensor Toy::mean_of(int param, int ranks, const std::vector<Use>& uses) const {
  const ParamSpec& spec = specs[static_cast<size_t>(param)];
  Tensor mean = Tensor::zeros(spec.shape, DType::kF64);
  for (const Use& use : uses) {
    ops::add_scaled(ops::cast(coefficients(spec, use.rank, use.step), DType::kF64), 1.0 / ranks,
                    mean);
  }
  return mean;
}

void Toy::expect(int param, int ranks, const std::vector<Use>& uses) const {
  const auto got = grad(param);
  check(got.has_value() == !uses.empty(), "rank ", rank, ": p", param,
        got ? " has a gradient" : " has no gradient");
  if (!got) return;
  const double difference =
      relative_difference(ops::cast(*got, DType::kF64), mean_of(param, ranks, uses));
  check(difference < kTolerance, "rank ", rank, ": the gradient of p", param, " differs by ",
        difference);
}

void Toy::expect_all(int ranks, const std::vector<int>& steps) const {
  std::vector<Use> uses;
  for (int step : steps) {
    for (int r = 0; r < ranks; ++r) uses.push_back({r, step});
  }
  for (int i = 0; i < kParams; ++i) expect(i, ranks, uses);
}

void Toy::expect_all_but(const std::vector<int>& unused, int ranks, int step) const {
  std::vector<Use> uses;
  for (int r = 0; r < ranks; ++r) uses.push_back({r, step});
  for (int i : all_but(unused)) expect(i, ranks, uses);
}

void random_delay(int rank, int64_t sequence) {
  delays_up_to(std::chrono::milliseconds(1))(rank, sequence);
}

void on_ranks(int ranks, const std::function<void(ProcessGroup&)>& fn) {
  spawn(ranks,
        [&](ProcessGroup& group) {
          omp_set_num_threads(1);
          fn(group);
        },
        {.timeout = std::chrono::seconds(20), .delay = random_delay});
}

std::string thrown_by(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

std::string same_on_all(const std::string& text, ProcessGroup& group) {
  constexpr int64_t kLongest = 1000;
  Tensor mine = Tensor::zeros({kLongest}, DType::kU8);
  check(text.size() <= kLongest, "a text of ", text.size(), " characters");
  std::memcpy(mine.mutable_raw(), text.data(), text.size());
  const Tensor all = Tensor::empty({group.size() * kLongest}, DType::kU8);
  group.all_gather(all, mine)->wait();
  for (int r = 0; r < group.size(); ++r) {
    const char* other = reinterpret_cast<const char*>(all.raw()) + r * kLongest;
    check(std::memcmp(other, mine.raw(), kLongest) == 0, "rank ", group.rank(), " has \"", text,
          "\", rank ", r, " has \"", std::string(other, strnlen(other, kLongest)), "\"");
  }
  return text;
}

}  // namespace lockstep::testing
