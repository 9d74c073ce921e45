#include "lockstep/tensor/ops/pool.h"

#include "lockstep/tensor/backend.h"

namespace lockstep::ops {
namespace {

Shape output_shape(const char* op, const Shape& x, const Pool2dOptions& o) {
  check(x.ndim() == 4, op, ": wanted images [N, H, W, C], got ", x);
  check(x.numel(1, 4) > 0, op, ": the images are empty: ", x);
  std::array<int64_t, 2> out{};
  for (size_t i = 0; i < 2; ++i) {
    const char* axis = i == 0 ? "height" : "width";
    check(o.kernel[i] >= 1 && o.stride[i] >= 1, op,
          ": wanted a kernel and a stride of at least 1, got ", axis, " ", o.kernel[i], " and ",
          o.stride[i]);
    check(0 <= o.padding[i] && 2 * o.padding[i] <= o.kernel[i], op,
          ": wanted a padding between 0 and half the kernel, got ", axis, " padding ", o.padding[i],
          " with kernel ", o.kernel[i]);
    const int64_t padded = x[1 + static_cast<int>(i)] + 2 * o.padding[i];
    check(o.kernel[i] <= padded, op, ": a window of ", axis, " ", o.kernel[i],
          " is larger than the padded image's ", padded, ": images ", x);
    out[i] = (padded - o.kernel[i]) / o.stride[i] + 1;
  }
  return {x[0], out[0], out[1], x[3]};
}

void check_backward(const char* op, const Tensor& grad_y, const Pool2dOptions& options,
                    const Tensor& grad_x) {
  const Shape wanted = output_shape(op, grad_x.shape(), options);
  check(grad_y.shape() == wanted && grad_y.dtype() == grad_x.dtype(), op, ": wanted grad_y ",
        name_of(grad_x.dtype()), " ", wanted, " for x ", grad_x.shape(), ", got ",
        name_of(grad_y.dtype()), " ", grad_y.shape());
}

/// One window that is the whole image.
Pool2dOptions whole(const char* op, const Shape& x) {
  check(x.ndim() == 4, op, ": wanted images [N, H, W, C], got ", x);
  return {.kernel = {x[1], x[2]}, .stride = {1, 1}};
}

}  // namespace

MaxPool2dResult max_pool2d(const Tensor& x, const Pool2dOptions& options) {
  const Shape shape = output_shape("max_pool2d", x.shape(), options);
  const DType index = options.kernel[0] * options.kernel[1] <= 256 ? DType::kU8 : DType::kI32;
  MaxPool2dResult result{Tensor::empty(shape, x.dtype(), x.device()),
                         Tensor::empty(shape, index, x.device())};
  if (x.numel() > 0) backend(x.device()).pool.max_forward(x, options, result.y, result.argmax);
  return result;
}

void max_pool2d_backward(const Tensor& grad_y, const Tensor& argmax, const Pool2dOptions& options,
                         const Dest& grad_x) {
  check_backward("max_pool2d_backward", grad_y, options, grad_x.out);
  check(argmax.shape() == grad_y.shape(), "max_pool2d_backward: wanted argmax ", grad_y.shape(),
        ", got ", argmax.shape());
  if (grad_y.numel() == 0) return;
  backend(grad_y.device()).pool.max_backward(grad_y, argmax, options, grad_x);
}

Tensor avg_pool2d(const Tensor& x, const Pool2dOptions& options) {
  Tensor y = Tensor::empty(output_shape("avg_pool2d", x.shape(), options), x.dtype(), x.device());
  if (x.numel() > 0) backend(x.device()).pool.avg_forward(x, options, y);
  return y;
}

void avg_pool2d_backward(const Tensor& grad_y, const Pool2dOptions& options, const Dest& grad_x) {
  check_backward("avg_pool2d_backward", grad_y, options, grad_x.out);
  if (grad_y.numel() == 0) return;
  backend(grad_y.device()).pool.avg_backward(grad_y, options, grad_x);
}

Tensor global_avg_pool2d(const Tensor& x) {
  const Tensor y = avg_pool2d(x, whole("global_avg_pool2d", x.shape()));
  return y.reshape({x.dim(0), x.dim(3)});
}

void global_avg_pool2d_backward(const Tensor& grad_y, const Dest& grad_x) {
  const Shape& x = grad_x.out.shape();
  const Pool2dOptions options = whole("global_avg_pool2d_backward", x);
  avg_pool2d_backward(grad_y.reshape({x[0], 1, 1, x[3]}), options, grad_x);
}

}  // namespace lockstep::ops
