#include "lockstep/tensor/cuda/cudnn/attention.h"

#include "lockstep/base/log.h"
#include "lockstep/base/str.h"
#include "lockstep/tensor/cuda/attention_masks.h"
#include "lockstep/tensor/cuda/cudnn/attention_plan.h"
#include "lockstep/tensor/cuda/cudnn/time_run.h"
#include "lockstep/tensor/cuda/make_backend.h"
#include "lockstep/tensor/cuda/runtime.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tensor/plan_book.h"

#include <functional>
#include <memory>
#include <optional>

namespace lockstep::cuda {
namespace {

using Cache = ProblemCache<Plan, std::tuple_size_v<AttentionKey>>;

void settle() { check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize"); }

/// Null when cuDNN cannot do it. Valid until the thread's next call. Where plans are timed,
/// `prepare` gives what runs one.
template <class Prepare>
const Plan* plan_of(const AttentionProblem& problem, cudnnHandle_t handle, const Prepare& prepare) {
  static thread_local auto* plans = new Cache(256, settle);
  return plans->get(attention_key(problem), [&] {
    std::string why;
    std::function<std::optional<int64_t>(const Plan&)> time;
    if (may_time_plans()) {
      time = [&](const Plan& plan) {
        return time_run([&]() -> Run { return [&plan, run = prepare()] { run(plan); }; });
      };
    }
    auto made = choose_plan<Plan>(
        problem_name("attention", attention_key(problem)), plan_book(),
        [&](const PlanWanted& wanted) {
          return plan_attention(problem, {.handle = handle}, wanted, &why);
        },
        time);
    if (made == nullptr) {
      const AttentionLayout& l = problem.layout;
      log_warning(str("cuDNN has no plan for attention of ", l.queries, " queries to ", l.keys,
                      " keys of ", l.head_dim, " (", why, "); a slower kernel of ours takes it"));
    }
    return made;
  });
}

/// Where head 0 of sample 0 begins.
void* start(const Tensor& x, const AttentionSteps& at) {
  return const_cast<bf16*>(x.data<bf16>() + at.offset);
}

bool is_aligned(const Tensor& x) { return reinterpret_cast<uintptr_t>(x.raw()) % 16 == 0; }

/// What forward and backward bind alike.
class Inputs {
 public:
  Inputs(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& padding,
         const AttentionLayout& l, const AttentionParams& params)
      : scale_(static_cast<float>(params.scale)),
        factor_(static_cast<float>(params.dropout.factor)) {
    bindings_ = {{kAttentionQ, start(q, l.q)},
                 {kAttentionK, start(k, l.k)},
                 {kAttentionV, start(v, l.v)},
                 {kAttentionScale, &scale_}};
    if (params.causal) bindings_.push_back({kAttentionHidden, &hidden_});
    if (padding.defined()) {
      bias_ = padding_bias(padding);
      bindings_.push_back({kAttentionPadding, bias_.mutable_raw()});
    }
    if (params.drop) {
      keep_ = keep_mask(l, params.dropout, q.device());
      bindings_.push_back({kAttentionKeep, keep_.mutable_raw()});
      bindings_.push_back({kAttentionFactor, &factor_});
    }
  }
  Inputs(const Inputs&) = delete;
  Inputs& operator=(const Inputs&) = delete;

  std::vector<Binding> with(std::initializer_list<Binding> more) const {
    std::vector<Binding> all = bindings_;
    all.insert(all.end(), more);
    return all;
  }

 private:
  float scale_, factor_, hidden_ = kUnseen;
  Tensor bias_, keep_;
  std::vector<Binding> bindings_;
};

/// The tensors that cuDNN writes the gradients to. It can neither leave one out nor add to what
/// there is: for those they are scratch.
class Gradients {
 public:
  Gradients(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionLayout& l,
            const Dest& grad_q, const Dest& grad_k, const Dest& grad_v)
      : dests_{&grad_q, &grad_k, &grad_v} {
    const Tensor* operands[] = {&q, &k, &v};
    const int64_t offsets[] = {l.q.offset, l.k.offset, l.v.offset};
    for (size_t i = 0; i < 3; ++i) {
      const bool direct = dests_[i]->out.defined() && !dests_[i]->accumulate;
      // Operands packed in one tensor have their gradients in one.
      for (size_t j = 0; j < i && !direct; ++j) {
        const bool packed = operands[j]->raw() == operands[i]->raw() && offsets[j] != offsets[i];
        if (packed) written[i] = written[j];
      }
      if (direct) {
        written[i] = dests_[i]->out;
      } else if (!written[i].defined()) {
        adds_[i] = dests_[i]->out.defined();
        // Zeros, lest what no gradient covers be added to the rest.
        const auto make = adds_[i] ? Tensor::zeros : Tensor::empty;
        written[i] = make(operands[i]->shape(), operands[i]->dtype(), q.device());
      }
      written[i].mutable_raw();  // tells the tensor that it changes
    }
  }
  /// To be called once they are written.
  void add() {
    for (size_t i = 0; i < 3; ++i) {
      if (!adds_[i]) continue;
      Tensor out = dests_[i]->out;
      backend(out.device()).copy.add_scaled(written[i], 1.0, out);
    }
  }

  Tensor written[3];

 private:
  const Dest* dests_[3];
  bool adds_[3] = {};
};

void forward(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& padding,
             const AttentionLayout& l, const AttentionParams& params, Tensor& out, Tensor& lse) {
  const auto own = [&] {
    own_heavy_kernels().attention.forward(q, k, v, padding, l, params, out, lse);
  };
  if (!cudnn_takes(l, q.dtype(), params) || !is_aligned(q) || !is_aligned(k) || !is_aligned(v)) {
    return own();
  }
  const cudnnHandle_t handle = cudnn_handle();
  lse.mutable_raw();  // tells the tensors that they change
  out.mutable_raw();
  const auto run_on = [&](const Inputs& inputs, const Plan& plan) {
    plan.run(handle, inputs.with({{kAttentionOut, start(out, l.out)},
                                  {kAttentionLse, const_cast<std::byte*>(lse.raw())}}));
  };
  // Each run writes all of the results, so that runs to be timed need no others.
  const Plan* plan = plan_of(
      {.layout = l, .causal = params.causal, .padding = padding.defined(), .drop = params.drop},
      handle, [&] {
        const auto inputs = std::make_shared<Inputs>(q, k, v, padding, l, params);
        return [&run_on, inputs](const Plan& timed) { run_on(*inputs, timed); };
      });
  if (plan == nullptr) return own();
  run_on(Inputs(q, k, v, padding, l, params), *plan);
  if (padding.defined()) clear_blind_queries(padding, l, params.causal, out, lse);
}

void backward(const Tensor& grad_out, const Tensor& q, const Tensor& k, const Tensor& v,
              const Tensor& padding, const Tensor& out, const Tensor& lse, const AttentionLayout& l,
              const AttentionParams& params, const Dest& grad_q, const Dest& grad_k,
              const Dest& grad_v) {
  const auto own = [&] {
    own_heavy_kernels().attention.backward(grad_out, q, k, v, padding, out, lse, l, params, grad_q,
                                           grad_k, grad_v);
  };
  for (const Dest* grad : {&grad_q, &grad_k, &grad_v}) {
    if (!grad->out.defined()) continue;
    if (grad->out.dtype() != q.dtype() || !is_aligned(grad->out)) return own();
  }
  for (const Tensor* x : {&grad_out, &q, &k, &v, &out}) {
    if (!is_aligned(*x)) return own();
  }
  if (!cudnn_takes(l, q.dtype(), params)) return own();
  const cudnnHandle_t handle = cudnn_handle();
  float inverse = params.drop ? static_cast<float>(1 / params.dropout.factor) : 1.0f;
  const auto run_on = [&](const Inputs& inputs, Tensor delta, const Gradients& gradients,
                          const Plan& plan) {
    const auto& grads = gradients.written;
    plan.run(handle, inputs.with({{kAttentionOut, start(out, l.out)},
                                  {kAttentionLse, const_cast<std::byte*>(lse.raw())},
                                  {kAttentionGradOut, start(grad_out, l.out)},
                                  {kAttentionGradQ, start(grads[0], l.q)},
                                  {kAttentionGradK, start(grads[1], l.k)},
                                  {kAttentionGradV, start(grads[2], l.v)},
                                  {kAttentionDelta, delta.mutable_raw()},
                                  {kAttentionInverse, &inverse}}));
  };
  const auto new_delta = [&] { return Tensor::empty(lse.shape(), lse.dtype(), lse.device()); };
  const Plan* plan = plan_of(
      {.layout = l,
       .causal = params.causal,
       .padding = padding.defined(),
       .drop = params.drop,
       .backward = true},
      handle, [&] {
        static const Dest nowhere;  // what is there already stays as it is
        const auto inputs = std::make_shared<Inputs>(q, k, v, padding, l, params);
        const auto scratch = std::make_shared<Gradients>(q, k, v, l, nowhere, nowhere, nowhere);
        return [&, inputs, scratch, delta = new_delta()](const Plan& timed) {
          run_on(*inputs, delta, *scratch, timed);
        };
      });
  if (plan == nullptr) return own();
  Gradients gradients(q, k, v, l, grad_q, grad_k, grad_v);
  run_on(Inputs(q, k, v, padding, l, params), new_delta(), gradients, *plan);
  gradients.add();
}

}  // namespace

const AttentionKernels kCudnnAttention{.forward = forward, .backward = backward};

}  // namespace lockstep::cuda
