#include "lockstep/tensor/cuda/cudnn/conv_problem.h"

namespace lockstep::cuda {

ConvKey conv_key(const ConvProblem& p) {
  const Conv2dOptions& o = p.options;
  const int64_t flags =
      static_cast<int64_t>(p.pass) | p.accumulate << 2 | p.tf32 << 3;  // groups: from x and weight
  return {p.x[0],        p.x[1],        p.x[2],       p.x[3],
          p.weight[0],   p.weight[1],   p.weight[2],  p.weight[3],
          o.stride[0],   o.stride[1],   o.padding[0], o.padding[1],
          o.dilation[0], o.dilation[1], flags,        static_cast<int64_t>(p.dtype)};
}

Nchw nchw(const Shape& s) {
  return {.dims = {s[0], s[3], s[1], s[2]}, .strides = {s[1] * s[2] * s[3], 1, s[2] * s[3], s[3]}};
}

bool is_pointwise(const Shape& weight, const Conv2dOptions& o) {
  return weight[1] == 1 && weight[2] == 1 && o.stride == std::array<int64_t, 2>{1, 1} &&
         o.padding == std::array<int64_t, 2>{0, 0} && o.groups == 1;
}

}  // namespace lockstep::cuda
