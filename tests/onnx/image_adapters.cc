// Convolution and pooling. ONNX's images are [N, C, H, W] and its weights [O, I, KH, KW]; ours have
// the channels last. One spatial dimension is an image of height 1.
#include "lockstep/autograd/ops/conv.h"
#include "lockstep/autograd/ops/elementwise.h"
#include "lockstep/autograd/ops/layout.h"
#include "lockstep/autograd/ops/pool.h"
#include "lockstep/tensor/ops/layout.h"
#include "lockstep/tests/onnx/node.h"

#include <algorithm>
#include <array>

namespace lockstep::testing {
namespace {

using Outputs = std::vector<Tensor>;
using Pair = std::array<int64_t, 2>;

Variable channels_last(const Variable& x) {
  const Shape& s = x.shape();
  unless(s.ndim() == 3 || s.ndim() == 4, "three spatial dimensions");
  return permute(s.ndim() == 4 ? x : reshape(x, {s[0], s[1], 1, s[2]}), {0, 2, 3, 1});
}

/// The opposite, for a result that has `ndim` dimensions in ONNX.
Tensor channels_first(const Tensor& y, int ndim) {
  const Tensor x = ops::permute(y, {0, 3, 1, 2});
  return ndim == 4 ? x : x.reshape({x.dim(0), x.dim(1), x.dim(3)});
}

/// One number for each spatial dimension, as a pair.
Pair pair_of(const std::vector<int64_t>& numbers, int64_t otherwise) {
  if (numbers.empty()) return {otherwise, otherwise};
  if (numbers.size() == 1) return {otherwise, numbers[0]};
  return {numbers[0], numbers[1]};
}

struct Window {
  Pair kernel, stride, padding, dilation;
};

/// `x` and `kernel`: extents of the (larger) image and of the window.
Window window_of(const OnnxNode& n, Pair x, Pair kernel) {
  Window w{.kernel = kernel,
           .stride = pair_of(n.integers("strides"), 1),
           .padding = {0, 0},
           .dilation = pair_of(n.integers("dilations"), 1)};
  const std::vector<int64_t> pads = n.integers("pads");
  const bool same = n.text("auto_pad", "NOTSET").starts_with("SAME");
  const size_t dims = pads.size() / 2;
  for (size_t i = 0; i < 2; ++i) {
    if (same) {
      const int64_t extent = (kernel[i] - 1) * w.dilation[i] + 1;
      const int64_t outputs = (x[i] + w.stride[i] - 1) / w.stride[i];
      const int64_t total = std::max<int64_t>((outputs - 1) * w.stride[i] + extent - x[i], 0);
      unless(total % 2 == 0, "padding that differs between the two sides");
      w.padding[i] = total / 2;
    } else if (i + dims >= 2) {
      const size_t at = i + dims - 2;
      unless(pads[at] == pads[at + dims], "padding that differs between the two sides");
      w.padding[i] = pads[at];
    }
  }
  return w;
}

Outputs conv(const OnnxNode& n) {
  const Variable x = channels_last(n.var(0)), weight = channels_last(n.var(1));
  const Window w = window_of(n, {x.data().dim(1), x.data().dim(2)},
                             {weight.data().dim(1), weight.data().dim(2)});
  const Conv2dOptions options{.stride = w.stride,
                              .padding = w.padding,
                              .dilation = w.dilation,
                              .groups = n.integer("group", 1)};
  return {channels_first(conv2d(x, weight, n.optional_var(2), options).data(), n.tensor(0).ndim())};
}

/// What conv2d does to the gradient of its result: ONNX's weight [I, O / groups, KH, KW] is that of
/// the convolution which it undoes.
Outputs conv_transpose(const OnnxNode& n) {
  const Tensor x = channels_last(n.var(0)).data(), weight = channels_last(n.var(1)).data();
  const Pair extra = pair_of(n.integers("output_padding"), 0);
  const Pair wanted = pair_of(n.integers("output_shape"), 0);
  const Pair kernel{weight.dim(1), weight.dim(2)};
  unless(n.text("auto_pad", "NOTSET") == "NOTSET", "padding that differs between the two sides");
  Window w = window_of(n, {}, kernel);
  Pair extents;
  for (size_t i = 0; i < 2; ++i) {
    const int64_t whole =
        w.stride[i] * (x.dim(static_cast<int>(i) + 1) - 1) + (kernel[i] - 1) * w.dilation[i] + 1;
    extents[i] = wanted[i] > 0 ? wanted[i] : whole + extra[i] - 2 * w.padding[i];
    if (wanted[i] > 0) {
      const int64_t total = std::max<int64_t>(whole - wanted[i], 0);
      unless(total % 2 == 0, "padding that differs between the two sides");
      w.padding[i] = total / 2;
    }
  }
  const Conv2dOptions options{.stride = w.stride,
                              .padding = w.padding,
                              .dilation = w.dilation,
                              .groups = n.integer("group", 1)};
  Tensor y =
      Tensor::empty({x.dim(0), extents[0], extents[1], weight.dim(3) * options.groups}, x.dtype());
  ops::conv2d_backward_data(x, weight, options, {y});
  if (n.has(2)) y = add(Variable(y), n.var(2)).data();
  return {channels_first(y, n.tensor(0).ndim())};
}

Pool2dOptions pool_options(const OnnxNode& n, const Tensor& x) {
  const Window w = window_of(n, {x.dim(1), x.dim(2)}, pair_of(n.integers("kernel_shape"), 1));
  unless(w.dilation == Pair{1, 1}, "dilated windows");
  for (size_t i = 0; i < 2; ++i) {
    const int64_t room = x.dim(static_cast<int>(i) + 1) + 2 * w.padding[i] - w.kernel[i];
    unless(n.integer("ceil_mode", 0) == 0 || room % w.stride[i] == 0, "sizes rounded up");
    unless(2 * w.padding[i] <= w.kernel[i], "padding of more than half the window");
  }
  return {.kernel = w.kernel, .stride = w.stride, .padding = w.padding};
}

/// ONNX's positions are in the whole tensor [N, C, H, W], with storage order 1 in [N, C, W, H].
Tensor whole_positions(const Tensor& argmax, const Tensor& x, const Pool2dOptions& o,
                       bool by_rows) {
  const int64_t height = x.dim(1), width = x.dim(2), channels = x.dim(3);
  Tensor positions = Tensor::empty(argmax.shape(), DType::kI64);
  const std::vector<uint8_t> in_window = argmax.to_vector<uint8_t>();
  for (int64_t at = 0; at < argmax.numel(); ++at) {
    const int64_t c = at % channels, column = at / channels % argmax.dim(2),
                  row = at / channels / argmax.dim(2) % argmax.dim(1),
                  image = at / channels / argmax.dim(2) / argmax.dim(1);
    const int64_t tap = in_window[static_cast<size_t>(at)];
    const int64_t h = row * o.stride[0] - o.padding[0] + tap / o.kernel[1];
    const int64_t w = column * o.stride[1] - o.padding[1] + tap % o.kernel[1];
    positions.mutable_data<int64_t>()[at] =
        (image * channels + c) * height * width + (by_rows ? h * width + w : w * height + h);
  }
  return positions;
}

Outputs max_pool(const OnnxNode& n) {
  const Variable x = channels_last(n.var(0));
  const Pool2dOptions options = pool_options(n, x.data());
  const int ndim = n.tensor(0).ndim();
  Outputs outputs{channels_first(max_pool2d(x, options).data(), ndim)};
  if (n.outputs() > 1) {
    const Tensor argmax = ops::max_pool2d(x.data(), options).argmax;
    const bool by_rows = n.integer("storage_order", 0) == 0;
    outputs.push_back(channels_first(whole_positions(argmax, x.data(), options, by_rows), ndim));
  }
  return outputs;
}

Outputs average_pool(const OnnxNode& n) {
  const Variable x = channels_last(n.var(0));
  const Pool2dOptions options = pool_options(n, x.data());
  unless(options.padding == Pair{0, 0} || n.integer("count_include_pad", 0) != 0,
         "padding that does not count; here it does");
  return {channels_first(avg_pool2d(x, options).data(), n.tensor(0).ndim())};
}

Outputs global_average_pool(const OnnxNode& n) {
  const Tensor y = global_avg_pool2d(channels_last(n.var(0))).data();
  return {y.reshape({y.dim(0), y.dim(1), 1, 1})};
}

Outputs global_max_pool(const OnnxNode& n) {
  const Variable x = channels_last(n.var(0));
  const Pool2dOptions whole{.kernel = {x.data().dim(1), x.data().dim(2)}, .stride = {1, 1}};
  return {channels_first(max_pool2d(x, whole).data(), 4)};
}

const OnnxAdapter kAdapters[] = {
    {"Conv", "conv2d", conv},
    {"ConvTranspose", "ops::conv2d_backward_data", conv_transpose},
    {"MaxPool", "max_pool2d", max_pool},
    {"AveragePool", "avg_pool2d", average_pool},
    {"GlobalAveragePool", "global_avg_pool2d", global_average_pool},
    {"GlobalMaxPool", "max_pool2d", global_max_pool},
};

}  // namespace

std::span<const OnnxAdapter> image_adapters() { return kAdapters; }

}  // namespace lockstep::testing
