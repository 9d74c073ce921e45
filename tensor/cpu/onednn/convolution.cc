#include "lockstep/tensor/cpu/onednn/convolution.h"

#include "lockstep/tensor/cpu/onednn/onednn.h"

#include <optional>

namespace lockstep::cpu::onednn {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

/// One convolution in oneDNN's terms: extents are written N, C, H, W whatever the layout.
struct Problem {
  memory::dims x, weight, y, stride, dilation, padding;
  memory::data_type type, weight_type, bias_type;
  bool has_bias;
  bool grouped;
  Key<20> key;

  Problem(const Shape& xs, const Shape& ws, const Shape& ys, const Conv2dOptions& o, DType dtype,
          DType weight_dtype, const Tensor& bias, bool accumulate)
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
  }

  memory::desc x_desc() const { return {x, type, Tag::nhwc}; }
  memory::desc y_desc() const { return {y, type, Tag::nhwc}; }
  memory::desc any_weight(memory::data_type t) const { return {weight, t, Tag::any}; }
  /// The layout [out, kh, kw, in / groups] of all weights outside this file.
  memory::desc own_weight() const {
    return {weight, weight_type, grouped ? Tag::gohwi : Tag::ohwi};
  }
  memory::desc bias_desc() const { return {{y[1]}, bias_type, Tag::x}; }
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

Forward::primitive_desc describe_forward(const Problem& p, dnnl::prop_kind kind) {
  const memory::desc weight = p.any_weight(p.type);
  if (p.has_bias) {
    return describe<Forward::primitive_desc>(kind, kDirect, p.x_desc(), weight, p.bias_desc(),
                                             p.y_desc(), p.stride, p.dilation, p.padding,
                                             p.padding);
  }
  return describe<Forward::primitive_desc>(kind, kDirect, p.x_desc(), weight, p.y_desc(), p.stride,
                                           p.dilation, p.padding, p.padding);
}

Call reorder(const memory::desc& from, const memory::desc& to, bool accumulate) {
  const dnnl::reorder::primitive_desc desc(engine(), from, engine(), to, attributes(accumulate));
  return {dnnl::reorder(desc), desc.scratchpad_desc(), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}};
}

Tensor bytes(const memory::desc& desc) {
  return Tensor::empty({static_cast<int64_t>(desc.get_size())}, DType::kU8);
}

/// A convolution with what brings its weights into the kernel's layout (or its gradient out of it).
struct Plan {
  Call convolution;
  memory::desc weight;               // in the kernel's layout
  std::optional<Call> weight_order;  // empty: the layouts are the same
};

Plan plan_forward(const Problem& p) {
  const auto desc = describe_forward(p, dnnl::prop_kind::forward_training);
  std::vector<Call::Arg> args{{DNNL_ARG_SRC, p.x_desc()},
                              {DNNL_ARG_WEIGHTS, desc.weights_desc()},
                              {DNNL_ARG_DST, p.y_desc()}};
  if (p.has_bias) args.push_back({DNNL_ARG_BIAS, p.bias_desc()});
  Plan plan{Call(Forward(desc), desc.scratchpad_desc(), args), desc.weights_desc(), {}};
  if (plan.weight != p.own_weight())
    plan.weight_order = reorder(p.own_weight(), plan.weight, false);
  return plan;
}

Plan plan_backward_data(const Problem& p) {
  const auto desc = describe_backward<BackwardData::primitive_desc>(
      describe_forward(p, dnnl::prop_kind::forward_training), kDirect, p.x_desc(),
      p.any_weight(p.type), p.y_desc(), p.stride, p.dilation, p.padding, p.padding);
  Plan plan{Call(BackwardData(desc), desc.scratchpad_desc(),
                 {{DNNL_ARG_DIFF_DST, p.y_desc()},
                  {DNNL_ARG_WEIGHTS, desc.weights_desc()},
                  {DNNL_ARG_DIFF_SRC, p.x_desc()}}),
            desc.weights_desc(),
            {}};
  if (plan.weight != p.own_weight())
    plan.weight_order = reorder(p.own_weight(), plan.weight, false);
  return plan;
}

Plan plan_backward_weight(const Problem& p, bool accumulate) {
  // In f32 also for bf16 images: the sum over all positions is rounded once, at the end.
  const auto desc = describe_backward<BackwardWeight::primitive_desc>(
      describe_forward(p, dnnl::prop_kind::forward_training), kDirect, p.x_desc(),
      p.any_weight(memory::data_type::f32), p.y_desc(), p.stride, p.dilation, p.padding, p.padding);
  Plan plan{Call(BackwardWeight(desc), desc.scratchpad_desc(),
                 {{DNNL_ARG_SRC, p.x_desc()},
                  {DNNL_ARG_DIFF_DST, p.y_desc()},
                  {DNNL_ARG_DIFF_WEIGHTS, desc.diff_weights_desc()}}),
            desc.diff_weights_desc(),
            {}};
  if (accumulate || plan.weight != p.own_weight())
    plan.weight_order = reorder(plan.weight, p.own_weight(), accumulate);
  return plan;
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

/// The weights as the plan's kernel wants them.
Tensor ordered(Plan& plan, const Tensor& weight) {
  if (!plan.weight_order) return weight;
  Tensor out = bytes(plan.weight);
  plan.weight_order->run({weight.raw(), out.mutable_raw()});
  return out;
}

}  // namespace

bool conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dOptions& options,
            Tensor& y) {
  thread_local Cache<Plan, 20> cache;
  const Problem p(x.shape(), weight.shape(), y.shape(), options, x.dtype(), weight.dtype(), bias,
                  false);
  Plan* plan = find(cache, p, [&] { return plan_forward(p); });
  if (plan == nullptr) return false;
  const Tensor w = ordered(*plan, weight);
  if (p.has_bias) {
    plan->convolution.run({x.raw(), w.raw(), y.mutable_raw(), bias.raw()});
  } else {
    plan->convolution.run({x.raw(), w.raw(), y.mutable_raw()});
  }
  return true;
}

bool conv2d_backward_data(const Tensor& grad_y, const Tensor& weight, const Conv2dOptions& options,
                          const Dest& grad_x) {
  thread_local Cache<Plan, 20> cache;
  Tensor target = grad_x.out;
  const Problem p(target.shape(), weight.shape(), grad_y.shape(), options, grad_y.dtype(),
                  weight.dtype(), {}, false);
  Plan* plan = find(cache, p, [&] { return plan_backward_data(p); });
  if (plan == nullptr) return false;
  const Tensor w = ordered(*plan, weight);
  plan->convolution.run({grad_y.raw(), w.raw(), target.mutable_raw()});
  return true;
}

bool conv2d_backward_weight(const Tensor& grad_y, const Tensor& x, const Conv2dOptions& options,
                            const Dest& grad_weight) {
  thread_local Cache<Plan, 20> cache;
  Tensor target = grad_weight.out;
  const bool accumulate = grad_weight.accumulate;
  const Problem p(x.shape(), target.shape(), grad_y.shape(), options, x.dtype(), target.dtype(), {},
                  accumulate);
  Plan* plan = find(cache, p, [&] { return plan_backward_weight(p, accumulate); });
  if (plan == nullptr) return false;
  if (!plan->weight_order) {
    plan->convolution.run({x.raw(), grad_y.raw(), target.mutable_raw()});
    return true;
  }
  Tensor kernel_order = bytes(plan->weight);
  plan->convolution.run({x.raw(), grad_y.raw(), kernel_order.mutable_raw()});
  plan->weight_order->run({kernel_order.raw(), target.mutable_raw()});
  return true;
}

}  // namespace lockstep::cpu::onednn
