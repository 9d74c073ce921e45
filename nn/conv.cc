#include "lockstep/nn/conv.h"

#include "lockstep/nn/init.h"

namespace lockstep {

Conv2d::Conv2d(const Conv2dSpec& spec, Generator& rng)
    : options_{.stride = spec.stride,
               .padding = spec.padding,
               .dilation = spec.dilation,
               .groups = spec.groups} {
  check(spec.in_channels > 0 && spec.out_channels > 0 && spec.groups > 0 &&
            spec.kernel.height > 0 && spec.kernel.width > 0,
        "Conv2d: wanted positive channels, groups and kernel, got ", spec.in_channels, " to ",
        spec.out_channels, " channels, ", spec.groups, " groups, kernel ", spec.kernel.height,
        " x ", spec.kernel.width);
  check(spec.in_channels % spec.groups == 0 && spec.out_channels % spec.groups == 0,
        "Conv2d: ", spec.groups, " groups do not divide ", spec.in_channels, " and ",
        spec.out_channels, " channels");
  Tensor w = Tensor::empty(
      {spec.out_channels, spec.kernel.height, spec.kernel.width, spec.in_channels / spec.groups},
      DType::kF32);
  if (spec.init == ConvInit::kKaimingNormalFanOut) {
    init::kaiming_normal(w, rng, {.fan = init::Fan::kOut});
  } else {
    init::default_weight(w, rng);
  }
  weight = Variable(w, true);
  register_parameter("weight", weight);
  if (spec.bias) {
    Tensor b = Tensor::empty({spec.out_channels}, DType::kF32);
    init::default_bias(b, w.shape(), rng);
    bias = Variable(b, true);
    register_parameter("bias", bias);
  }
}

Variable Conv2d::forward(const Variable& x) { return conv2d(x, weight, bias, options_); }

}  // namespace lockstep
