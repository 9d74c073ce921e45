#include "lockstep/tensor/ops/group_norm.h"

#include "lockstep/tensor/cpu/add_norm.h"
#include "lockstep/tensor/cpu/cpu_backend.h"
#include "lockstep/tensor/cpu/group_norm_units.h"

namespace lockstep {
namespace {

void forward(const Tensor& x, GroupNormExtents e, const Tensor& weight, const Tensor& bias,
             double eps, Tensor& y, Tensor& mean, Tensor& rstd) {
  dispatch_floating(x.dtype(), "group_norm", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const T* in = x.data<T>();
    const C* w = weight.data<C>();
    const C* b = bias.data<C>();
    T* out = y.mutable_data<T>();
    C* means = mean.mutable_data<C>();
    C* deviations = rstd.mutable_data<C>();
    cpu::parallel_for(e.samples * e.groups, cpu::row_grain(e.positions * (e.channels / e.groups)),
                      [=](int64_t begin, int64_t end) {
                        cpu::normalise_units(e, begin, end, in, w, b, eps, out, means, deviations);
                      });
  });
}

void backward(const Tensor& grad_y, const Tensor& x, GroupNormExtents e, const Tensor& weight,
              const Tensor& mean, const Tensor& rstd, const Dest& grad_x, Tensor& sums) {
  dispatch_floating(x.dtype(), "group_norm_backward", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    using Gradient = cpu::GroupNormGradient<T>;
    Tensor target = grad_x.out;
    if (!target.defined() && !sums.defined()) return;
    T* out = target.defined() ? target.mutable_data<T>() : nullptr;
    const Gradient job{
        e, grad_y.data<T>(), x.data<T>(), weight.data<C>(), mean.data<C>(), rstd.data<C>()};
    const cpu::Partials partials(e, 2);
    const int64_t width = e.channels / e.groups;
    const int64_t work = e.positions * width * (e.samples / std::max<int64_t>(partials.chunks, 1));
    const auto kernel = [&]<bool kData, bool kSums>() {
      return grad_x.accumulate ? &Gradient::template group<kData, kSums, true>
                               : &Gradient::template group<kData, kSums, false>;
    };
    const auto run = !target.defined() ? kernel.template operator()<false, true>()
                     : sums.defined()  ? kernel.template operator()<true, true>()
                                       : kernel.template operator()<true, false>();
    cpu::parallel_for(
        partials.chunks * e.groups, cpu::row_grain(work), [&](int64_t begin, int64_t end) {
          Tensor memory = Tensor::empty({2 * width}, dtype_of<C>);
          for (int64_t u = begin; u < end; ++u) {
            const int64_t chunk = u / e.groups, group = u % e.groups;
            double* of_weight = partials.of(chunk) + group * width;
            (job.*run)(partials.first(chunk), partials.first(chunk + 1), group, out, 0,
                       memory.mutable_data<C>(), of_weight, of_weight + e.channels);
          }
        });
    if (sums.defined()) partials.add_up(sums.mutable_data<C>());
  });
}

}  // namespace

const GroupNormKernels kCpuGroupNorm{.forward = forward,
                                     .backward = backward,
                                     .add_forward = cpu::add_norm,
                                     .add_backward = cpu::add_norm_backward};

}  // namespace lockstep
