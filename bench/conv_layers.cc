// Times single layers of convolutional networks: the child of conv_layers.py, which asks for them
// in turn with PyTorch.
//
// A line of standard input names a layer; the answer is a line with the milliseconds of one run of
// each of its passes:
//   conv N H W I O K stride padding        -> forward, data gradient, weight gradient
//   norm N H W C residual                  -> forward and backward of relu(batch_norm(x) [+
//   residual]) pool N H W C K stride padding          -> forward and backward of max pooling
#include "lockstep/base/error.h"
#include "lockstep/tensor/ops/conv.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tensor/ops/norm.h"
#include "lockstep/tensor/ops/pool.h"
#include "lockstep/tensor/random.h"

#include <chrono>
#include <ctime>
#include <functional>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

namespace lockstep {
namespace {

Tensor random(const Shape& shape, uint64_t seed) {
  Tensor out = Tensor::empty(shape, DType::kF32);
  float* values = out.mutable_data<float>();
  const PhiloxRange range = Generator(seed).take(shape.numel());
  for (int64_t i = 0; i < shape.numel(); ++i) values[i] = 2 * range.uniform(i) - 1;
  return out;
}

/// The passes of one layer, ready to run.
using Passes = std::vector<std::function<void()>>;

Passes conv(std::istream& in) {
  int64_t n, h, w, i, o, k, stride, padding;
  in >> n >> h >> w >> i >> o >> k >> stride >> padding;
  const Conv2dOptions options{.stride = {stride, stride}, .padding = {padding, padding}};
  const Tensor x = random({n, h, w, i}, 1);
  const Tensor weight = random({o, k, k, i}, 2);
  const Tensor grad = ops::clone(ops::conv2d(x, weight, {}, options));
  const Dest grad_x{Tensor::empty(x.shape(), DType::kF32)};
  const Dest grad_weight{Tensor::empty(weight.shape(), DType::kF32)};
  return {[=] { ops::conv2d(x, weight, {}, options); },
          [=] { ops::conv2d_backward_data(grad, weight, options, grad_x); },
          [=] { ops::conv2d_backward_weight(grad, x, options, grad_weight); }};
}

Passes norm(std::istream& in) {
  int64_t n, h, w, c, with_residual;
  in >> n >> h >> w >> c >> with_residual;
  const Tensor x = random({n, h, w, c}, 1);
  const Tensor residual = with_residual != 0 ? random({n, h, w, c}, 2) : Tensor();
  const Tensor weight = random({c}, 3), bias = random({c}, 4), grad = random({n, h, w, c}, 5);
  const auto vector = [=] { return ops::full({c}, 0, DType::kF32); };
  Tensor mean = vector(), variance = vector(), running = vector(), sum = vector(),
         product = vector();
  auto statistics = [=]() mutable {
    ops::batch_norm_moments(x, mean, variance);
    ops::batch_norm_update_running(mean, 0.1, 1, running);
    return ops::batch_norm_invstd(variance, 1e-5);
  };
  const Tensor invstd = statistics();
  const Tensor y = ops::batch_norm_apply({x, mean, invstd}, weight, bias, residual, true);
  const Dest grad_x{Tensor::empty(x.shape(), DType::kF32)};
  const Dest grad_residual{residual.defined() ? Tensor::empty(x.shape(), DType::kF32) : Tensor()};
  return {[=]() mutable {
            ops::batch_norm_apply({x, mean, statistics()}, weight, bias, residual, true);
          },
          [=]() mutable {
            ops::batch_norm_backward_sums(grad, y, {x, mean, invstd}, sum, product, grad_residual);
            const bool masked = residual.defined();
            ops::batch_norm_backward_data(masked ? grad_residual.out : grad, masked ? Tensor() : y,
                                          {x, mean, invstd}, weight, sum, product,
                                          static_cast<double>(n * h * w), grad_x);
          }};
}

Passes pool(std::istream& in) {
  int64_t n, h, w, c, k, stride, padding;
  in >> n >> h >> w >> c >> k >> stride >> padding;
  const Pool2dOptions options{
      .kernel = {k, k}, .stride = {stride, stride}, .padding = {padding, padding}};
  const Tensor x = random({n, h, w, c}, 1);
  const ops::MaxPool2dResult result = ops::max_pool2d(x, options);
  const Dest grad_x{Tensor::empty(x.shape(), DType::kF32)};
  return {[=] { ops::max_pool2d(x, options); },
          [=] { ops::max_pool2d_backward(result.y, result.argmax, options, grad_x); }};
}

Passes prepare(const std::string& line) {
  std::istringstream in(line);
  std::string kind;
  in >> kind;
  Passes passes = kind == "conv"   ? conv(in)
                  : kind == "norm" ? norm(in)
                  : kind == "pool" ? pool(in)
                                   : Passes{};
  check(!passes.empty() && !in.fail(),
        "conv_layers: wanted conv, norm or pool and their sizes, got ", line);
  for (const auto& pass : passes) pass();  // makes the primitives and warms the caches of memory
  return passes;
}

using Clock = double (*)();

double wall_ms() {
  return std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

double cpu_ms() { return static_cast<double>(std::clock()) * (1e3 / CLOCKS_PER_SEC); }

int run(Clock now_ms) {
  std::string prepared;
  Passes passes;
  for (std::string line; std::getline(std::cin, line);) {
    if (line != prepared) {
      passes = prepare(line);
      prepared = line;
    }
    for (const auto& pass : passes) {
      const double begin = now_ms();
      pass();
      std::cout << now_ms() - begin << ' ';
    }
    std::cout << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  try {
    return lockstep::run(argc > 1 && std::string(argv[1]) == "cpu" ? lockstep::cpu_ms
                                                                   : lockstep::wall_ms);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
