#include "lockstep/tensor/cpu/onednn/convolution.h"

#include "lockstep/tensor/cpu/onednn/onednn.h"

#include <optional>
#include <string>

namespace lockstep::cpu::onednn {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

enum class Pass { kForward, kBackwardData, kBackwardWeight };

/// One convolution in oneDNN's terms: extents are written N, C, H, W whatever the layout.
struct Problem {
  memory::dims x, weight, y, stride, dilation, padding;
  memory::data_type type, weight_type, bias_type;
  bool has_bias;
  bool grouped;
  bool blocked = false;
  Key<20> key;

  Problem(Pass pass, const Shape& xs, const Shape& ws, const Shape& ys, const Conv2dOptions& o,
          DType dtype, DType weight_dtype, const Tensor& bias, bool accumulate)
      : x{xs[0], xs[3], xs[1], xs[2]},
        weight{ws[0], ws[3], ws[1], ws[2]},
        y{ys[0], ys[3], ys[1], ys[2]},
        stride{o.stride[0], o.stride[1]},
        dilation{o.dilation[0] - 1, o.dilation[1] - 1},
        padding{o.padding[0], o.padding[1]},
        type(data_type(dtype)),
        weight_type(data_type(weight_dtype)),
        bias_type(bias.defined() ? data_type(bias.dtype()) : weight_type),
        has_bias(bias.defined()),
        grouped(o.groups > 1),
        key{xs[0],
            xs[1],
            xs[2],
            xs[3],
            ws[0],
            ws[1],
            ws[2],
            o.stride[0],
            o.stride[1],
            o.padding[0],
            o.padding[1],
            o.dilation[0],
            o.dilation[1],
            o.groups,
            static_cast<int64_t>(dtype),
            static_cast<int64_t>(weight_dtype),
            has_bias ? 1 + static_cast<int64_t>(bias.dtype()) : 0,
            accumulate} {
    if (grouped) weight = {o.groups, ws[0] / o.groups, ws[3], ws[1], ws[2]};
    blocked = prefer_blocked(pass);
  }

  /// The layouts of all tensors outside this file.
  memory::desc own_x() const { return {x, type, Tag::nhwc}; }
  memory::desc own_y() const { return {y, type, Tag::nhwc}; }
  memory::desc own_weight() const {
    return {weight, weight_type, grouped ? Tag::gohwi : Tag::ohwi};
  }
  memory::desc bias_desc() const { return {{y[1]}, bias_type, Tag::x}; }

  /// What the kernel sees of the images: NHWC, or what it likes best when they are blocked.
  memory::desc kernel_x() const { return {x, type, blocked ? Tag::any : Tag::nhwc}; }
  memory::desc kernel_y() const { return {y, type, blocked ? Tag::any : Tag::nhwc}; }
  memory::desc any_weight(memory::data_type t) const { return {weight, t, Tag::any}; }

 private:
  /// Whether the images are worth a reorder to blocks of channels. Measured with oneDNN 2.6 on the
  /// layers of ResNets: NHWC wins nearly everywhere, except that pixels of many channels lie a
  /// power of two apart and fight for the same cache sets when an image has only a few of them, and
  /// that the weight gradient of strided 3x3 kernels is 1.1 to 1.8 times slower in NHWC.
  bool prefer_blocked(Pass pass) const {
    if (grouped || type != memory::data_type::f32 || x[1] % 16 != 0 || y[1] % 16 != 0) return false;
    if (weight[2] * weight[3] == 1) return false;
    const bool strided = stride[0] > 1 || stride[1] > 1;
    const bool few_pixels = y[2] * y[3] <= 16;
    switch (pass) {
      case Pass::kForward:
        return few_pixels;
      case Pass::kBackwardData:
        return few_pixels && !strided;
      case Pass::kBackwardWeight:
        return few_pixels || strided;
    }
    return false;
  }
};

#if DNNL_VERSION_MAJOR >= 3
template <class PrimitiveDesc, class... Args>
PrimitiveDesc describe(const Args&... args) {
  return PrimitiveDesc(engine(), args..., attributes());
}
template <class PrimitiveDesc, class... Args>
PrimitiveDesc describe_backward(const dnnl::convolution_forward::primitive_desc& hint,
                                const Args&... args) {
  return PrimitiveDesc(engine(), args..., hint, attributes());
}
#else
template <class PrimitiveDesc, class... Args>
PrimitiveDesc describe(const Args&... args) {
  return PrimitiveDesc({args...}, attributes(), engine());
}
template <class PrimitiveDesc, class... Args>
PrimitiveDesc describe_backward(const dnnl::convolution_forward::primitive_desc& hint,
                                const Args&... args) {
  return PrimitiveDesc({args...}, attributes(), engine(), hint);
}
#endif

using Forward = dnnl::convolution_forward;
using BackwardData = dnnl::convolution_backward_data;
using BackwardWeight = dnnl::convolution_backward_weights;
constexpr auto kDirect = dnnl::algorithm::convolution_direct;

Forward::primitive_desc describe_forward(const Problem& p) {
  constexpr auto kTraining = dnnl::prop_kind::forward_training;
  if (p.has_bias) {
    return describe<Forward::primitive_desc>(kTraining, kDirect, p.kernel_x(), p.any_weight(p.type),
                                             p.bias_desc(), p.kernel_y(), p.stride, p.dilation,
                                             p.padding, p.padding);
  }
  return describe<Forward::primitive_desc>(kTraining, kDirect, p.kernel_x(), p.any_weight(p.type),
                                           p.kernel_y(), p.stride, p.dilation, p.padding,
                                           p.padding);
}

Call reorder(const memory::desc& from, const memory::desc& to, bool accumulate) {
  const dnnl::reorder::primitive_desc desc(engine(), from, engine(), to, attributes(accumulate));
  return {dnnl::reorder(desc), desc.scratchpad_desc(), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}};
}

/// A tensor as the kernel wants it, and what brings it there (or brings a result back); empty when
/// its own layout serves.
struct Operand {
  memory::desc kernel;
  std::optional<Call> order;

  static Operand input(const memory::desc& own, const memory::desc& kernel) {
    Operand operand{kernel, {}};
    if (kernel != own) operand.order = reorder(own, kernel, false);
    return operand;
  }
  static Operand output(const memory::desc& own, const memory::desc& kernel, bool accumulate) {
    Operand operand{kernel, {}};
    if (accumulate || kernel != own) operand.order = reorder(kernel, own, accumulate);
    return operand;
  }

  Tensor fresh() const {
    return Tensor::empty({static_cast<int64_t>(kernel.get_size())}, DType::kU8);
  }
  Tensor ordered(const Tensor& tensor) {
    if (!order) return tensor;
    Tensor out = fresh();
    order->run({tensor.raw(), out.mutable_raw()});
    return out;
  }
};

/// A pass of a convolution: two tensors in, one out, and the bias that forward may have.
struct Plan {
  Operand first, second, result;
  Call convolution;

  void run(const Tensor& a, const Tensor& b, const Tensor* bias, Tensor& out) {
    const Tensor in_a = first.ordered(a);
    const Tensor in_b = second.ordered(b);
    Tensor target = result.order ? result.fresh() : out;
    if (bias != nullptr) {
      convolution.run({in_a.raw(), in_b.raw(), target.mutable_raw(), bias->raw()});
    } else {
      convolution.run({in_a.raw(), in_b.raw(), target.mutable_raw()});
    }
    if (result.order) result.order->run({target.raw(), out.mutable_raw()});
  }
};

Plan plan_forward(const Problem& p) {
  const auto desc = describe_forward(p);
  std::vector<Call::Arg> args{{DNNL_ARG_SRC, desc.src_desc()},
                              {DNNL_ARG_WEIGHTS, desc.weights_desc()},
                              {DNNL_ARG_DST, desc.dst_desc()}};
  if (p.has_bias) args.push_back({DNNL_ARG_BIAS, p.bias_desc()});
  return {Operand::input(p.own_x(), desc.src_desc()),
          Operand::input(p.own_weight(), desc.weights_desc()),
          Operand::output(p.own_y(), desc.dst_desc(), false),
          Call(Forward(desc), desc.scratchpad_desc(), args)};
}

Plan plan_backward_data(const Problem& p, bool accumulate) {
  const auto desc = describe_backward<BackwardData::primitive_desc>(
      describe_forward(p), kDirect, p.kernel_x(), p.any_weight(p.type), p.kernel_y(), p.stride,
      p.dilation, p.padding, p.padding);
  return {Operand::input(p.own_y(), desc.diff_dst_desc()),
          Operand::input(p.own_weight(), desc.weights_desc()),
          Operand::output(p.own_x(), desc.diff_src_desc(), accumulate),
          Call(BackwardData(desc), desc.scratchpad_desc(),
               {{DNNL_ARG_DIFF_DST, desc.diff_dst_desc()},
                {DNNL_ARG_WEIGHTS, desc.weights_desc()},
                {DNNL_ARG_DIFF_SRC, desc.diff_src_desc()}})};
}

/// Seen with oneDNN 2.6 where a processor has AVX2 and no more: garbage from strided 1x1 kernels
/// between numbers of channels that are no multiples of its vectors of 8.
bool is_wrong(const BackwardWeight::primitive_desc& desc, const Problem& p) {
  const bool strided = p.stride[0] > 1 || p.stride[1] > 1;
  const bool odd = p.x[1] % 8 != 0 || p.y[1] % 8 != 0;
  return strided && odd && std::string(desc.impl_info_str()) == "jit_1x1:avx2";
}

Plan plan_backward_weight(const Problem& p, bool accumulate) {
  // In f32 also for bf16 images: the sum over all positions is rounded once, at the end.
  auto desc = describe_backward<BackwardWeight::primitive_desc>(
      describe_forward(p), kDirect, p.kernel_x(), p.any_weight(memory::data_type::f32),
      p.kernel_y(), p.stride, p.dilation, p.padding, p.padding);
  while (is_wrong(desc, p)) {
    if (!desc.next_impl()) throw dnnl::error(dnnl_unimplemented, "no other kernel");
  }
  return {Operand::input(p.own_x(), desc.src_desc()),
          Operand::input(p.own_y(), desc.diff_dst_desc()),
          Operand::output(p.own_weight(), desc.diff_weights_desc(), accumulate),
          Call(BackwardWeight(desc), desc.scratchpad_desc(),
               {{DNNL_ARG_SRC, desc.src_desc()},
                {DNNL_ARG_DIFF_DST, desc.diff_dst_desc()},
                {DNNL_ARG_DIFF_WEIGHTS, desc.diff_weights_desc()}})};
}

/// The plan of `p` from `cache`, or null when oneDNN has no such kernel here.
template <class Make>
Plan* find(Cache<Plan, 20>& cache, const Problem& p, Make&& make) {
  return cache.get(p.key, [&]() -> std::unique_ptr<Plan> {
    try {
      return std::make_unique<Plan>(make());
    } catch (const dnnl::error& error) {
      if (error.status == dnnl_unimplemented) return nullptr;
      throw Error(str("conv2d: oneDNN refused: ", error.what()));
    }
  });
}

}  // namespace

bool conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dOptions& options,
            Tensor& y) {
  thread_local Cache<Plan, 20> cache;
  const Problem p(Pass::kForward, x.shape(), weight.shape(), y.shape(), options, x.dtype(),
                  weight.dtype(), bias, false);
  Plan* plan = find(cache, p, [&] { return plan_forward(p); });
  if (plan != nullptr) plan->run(x, weight, bias.defined() ? &bias : nullptr, y);
  return plan != nullptr;
}

bool conv2d_backward_data(const Tensor& grad_y, const Tensor& weight, const Conv2dOptions& options,
                          const Dest& grad_x) {
  thread_local Cache<Plan, 20> cache;
  Tensor out = grad_x.out;
  const Problem p(Pass::kBackwardData, out.shape(), weight.shape(), grad_y.shape(), options,
                  grad_y.dtype(), weight.dtype(), {}, grad_x.accumulate);
  Plan* plan = find(cache, p, [&] { return plan_backward_data(p, grad_x.accumulate); });
  if (plan != nullptr) plan->run(grad_y, weight, nullptr, out);
  return plan != nullptr;
}

bool conv2d_backward_weight(const Tensor& grad_y, const Tensor& x, const Conv2dOptions& options,
                            const Dest& grad_weight) {
  thread_local Cache<Plan, 20> cache;
  Tensor out = grad_weight.out;
  const Problem p(Pass::kBackwardWeight, x.shape(), out.shape(), grad_y.shape(), options, x.dtype(),
                  out.dtype(), {}, grad_weight.accumulate);
  Plan* plan = find(cache, p, [&] { return plan_backward_weight(p, grad_weight.accumulate); });
  if (plan != nullptr) plan->run(x, grad_y, nullptr, out);
  return plan != nullptr;
}

}  // namespace lockstep::cpu::onednn
