#include "lockstep/tensor/ops/conv.h"

#include "lockstep/tensor/backend.h"
#include "lockstep/tensor/ops/check_device.h"
#include "lockstep/tensor/ops/copy.h"

namespace lockstep::ops {
namespace {

/// "{height, width}" in a message; the text is made only when the message is.
struct Pair {
  const std::array<int64_t, 2>& extents;
};
std::ostream& operator<<(std::ostream& out, const Pair& p) {
  return out << "{" << p.extents[0] << ", " << p.extents[1] << "}";
}

void check_dtypes(const char* op, DType x, DType other, const char* name) {
  check(is_computable(x), op, ": wanted images in f32, f64 or bf16, got ", name_of(x));
  check(other == x || (x == DType::kBF16 && other == DType::kF32), op, ": wanted the ", name,
        " in ", name_of(x), x == DType::kBF16 ? " or f32" : "", " like the images, got ",
        name_of(other));
}

/// The shape of the result; throws when the arguments do not fit together.
Shape output_shape(const char* op, const Shape& x, const Shape& weight, const Conv2dOptions& o) {
  check(x.ndim() == 4, op, ": wanted images [N, H, W, C], got ", x);
  check(weight.ndim() == 4, op, ": wanted a weight [out, kh, kw, in / groups], got ", weight);
  check(o.groups >= 1 && o.stride[0] >= 1 && o.stride[1] >= 1 && o.dilation[0] >= 1 &&
            o.dilation[1] >= 1 && o.padding[0] >= 0 && o.padding[1] >= 0,
        op,
        ": wanted groups, strides and dilations of at least 1 and paddings of at least 0, got "
        "groups ",
        o.groups, ", stride ", Pair{o.stride}, ", dilation ", Pair{o.dilation}, ", padding ",
        Pair{o.padding});
  check(x[3] == weight[3] * o.groups, op, ": images ", x, " have ", x[3], " channels, but weight ",
        weight, " with ", o.groups, " groups wants ", weight[3] * o.groups);
  check(weight[0] % o.groups == 0, op, ": the ", weight[0], " output channels of weight ", weight,
        " cannot be split in ", o.groups, " groups");
  check(weight.numel() > 0, op, ": the weight is empty: ", weight);
  std::array<int64_t, 2> out{};
  for (int d = 0; d < 2; ++d) {
    const auto i = static_cast<size_t>(d);
    const int64_t padded = x[1 + d] + 2 * o.padding[i];
    const int64_t reach = o.dilation[i] * (weight[1 + d] - 1) + 1;
    check(reach <= padded, op, ": the kernel covers ", reach, d == 0 ? " rows" : " columns",
          ", the padded image has only ", padded, ": images ", x, ", weight ", weight, ", padding ",
          Pair{o.padding}, ", dilation ", Pair{o.dilation});
    out[i] = (padded - reach) / o.stride[i] + 1;
  }
  return {x[0], out[0], out[1], weight[0]};
}

void check_grad(const char* op, const Tensor& grad_y, const Shape& wanted) {
  check(grad_y.shape() == wanted, op, ": wanted the result's gradient ", wanted, ", got ",
        grad_y.shape());
}

void check_bias(const char* op, const Tensor& bias, DType x, int64_t channels) {
  if (!bias.defined()) return;
  check(bias.shape() == Shape{channels}, op, ": wanted a bias [", channels, "], got ",
        bias.shape());
  check_dtypes(op, x, bias.dtype(), "bias");
}

/// The gradient of something that no image used.
void add_nothing(const Dest& grad) {
  Tensor out = grad.out;
  if (!grad.accumulate) fill(out, 0);
}

}  // namespace

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
              const Conv2dOptions& options) {
  const Shape shape = output_shape("conv2d", x.shape(), weight.shape(), options);
  check_dtypes("conv2d", x.dtype(), weight.dtype(), "weight");
  check_bias("conv2d", bias, x.dtype(), weight.dim(0));
  check_device("conv2d", x, weight, "the weight");
  if (bias.defined()) check_device("conv2d", x, bias, "the bias");
  Tensor y = Tensor::empty(shape, x.dtype(), x.device());
  if (y.numel() > 0) backend(x.device()).conv.forward(x, weight, bias, options, y);
  return y;
}

void conv2d_backward_data(const Tensor& grad_y, const Tensor& weight, const Conv2dOptions& options,
                          const Dest& grad_x) {
  constexpr const char* kOp = "conv2d_backward_data";
  check_grad(kOp, grad_y, output_shape(kOp, grad_x.out.shape(), weight.shape(), options));
  check_dtypes(kOp, grad_y.dtype(), weight.dtype(), "weight");
  check_dtypes(kOp, grad_y.dtype(), grad_x.out.dtype(), "gradient of the images");
  if (grad_y.numel() == 0) return add_nothing(grad_x);
  backend(grad_y.device()).conv.backward_data(grad_y, weight, options, grad_x);
}

void conv2d_backward_weight(const Tensor& grad_y, const Tensor& x, const Conv2dOptions& options,
                            const Dest& grad_weight) {
  constexpr const char* kOp = "conv2d_backward_weight";
  check_grad(kOp, grad_y, output_shape(kOp, x.shape(), grad_weight.out.shape(), options));
  check(x.dtype() == grad_y.dtype(), kOp, ": images of ", name_of(x.dtype()), " and a gradient of ",
        name_of(grad_y.dtype()));
  check_dtypes(kOp, x.dtype(), grad_weight.out.dtype(), "weight's gradient");
  if (grad_y.numel() == 0) return add_nothing(grad_weight);
  backend(x.device()).conv.backward_weight(grad_y, x, options, grad_weight);
}

void conv2d_backward_bias(const Tensor& grad_y, const Dest& grad_bias) {
  check_bias("conv2d_backward_bias", grad_bias.out, grad_y.dtype(), grad_y.dim(-1));
  if (grad_y.numel() == 0) return add_nothing(grad_bias);
  backend(grad_y.device()).conv.backward_bias(grad_y, grad_bias);
}

}  // namespace lockstep::ops
