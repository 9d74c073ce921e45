#include "lockstep/tensor/cuda/cudnn/conv.h"

#include "lockstep/base/log.h"
#include "lockstep/base/str.h"
#include "lockstep/tensor/cuda/add_bias.h"
#include "lockstep/tensor/cuda/cublas/matmul.h"
#include "lockstep/tensor/cuda/cudnn/conv_plan.h"
#include "lockstep/tensor/cuda/cudnn/time_run.h"
#include "lockstep/tensor/cuda/make_backend.h"
#include "lockstep/tensor/cuda/runtime.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tensor/plan_book.h"
#include "lockstep/tensor/tf32.h"

#include <array>
#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace lockstep::cuda {
namespace {

using Cache = ProblemCache<Plan, std::tuple_size_v<ConvKey>>;

void settle() { check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize"); }

bool is_aligned(const Tensor& x) { return reinterpret_cast<uintptr_t>(x.raw()) % 16 == 0; }

/// Which of x, weight and y a pass writes.
size_t result_of(ConvPass pass) {
  return pass == ConvPass::kData ? 0 : pass == ConvPass::kWeight ? 1 : 2;
}

std::vector<Binding> bindings(std::span<const Tensor, 3> operands) {
  const auto memory = [](const Tensor& t) {
    return const_cast<void*>(static_cast<const void*>(t.raw()));
  };
  return {{kConvX, memory(operands[0])},
          {kConvWeight, memory(operands[1])},
          {kConvY, memory(operands[2])}};
}

/// Times plans of the pass. Null where they are not to be timed.
std::function<std::optional<int64_t>(const Plan&)> timer(ConvPass pass, cudnnHandle_t handle,
                                                         const Tensor& x, const Tensor& weight,
                                                         const Tensor& y) {
  if (!may_time_plans()) return nullptr;
  return [=](const Plan& plan) {
    return time_run([&]() -> Run {
      std::array<Tensor, 3> operands{x, weight, y};
      // A result of its own: a gradient that is added to must stay what it is. Zeros, so that what
      // is added up stays finite.
      Tensor& result = operands[result_of(pass)];
      result = Tensor::zeros(result.shape(), result.dtype(), result.device());
      return [&plan, handle, operands] { plan.run(handle, bindings(operands)); };
    });
  };
}

/// False, with nothing done, when cuDNN cannot do it. Whichever of the three is the result is
/// written.
bool run(ConvPass pass, bool accumulate, const Conv2dOptions& options, const Tensor& x,
         const Tensor& weight, const Tensor& y) {
  const ConvProblem problem{.pass = pass,
                            .dtype = x.dtype(),
                            .accumulate = accumulate,
                            .tf32 = x.dtype() == DType::kF32 && allow_tf32(),
                            .x = x.shape(),
                            .weight = weight.shape(),
                            .y = y.shape(),
                            .options = options};
  if (x.dtype() == DType::kF64 || weight.dtype() != x.dtype() || y.dtype() != x.dtype() ||
      !is_aligned(x) || !is_aligned(weight) || !is_aligned(y)) {
    return false;
  }
  static thread_local auto* plans = new Cache(1024, settle);
  const cudnnHandle_t handle = cudnn_handle();
  const Plan* plan = plans->get(conv_key(problem), [&] {
    std::string why;
    auto made = choose_plan<Plan>(
        problem_name("convolution", conv_key(problem)), plan_book(),
        [&](const PlanWanted& wanted) {
          return plan_convolution(problem, {.handle = handle}, wanted, &why);
        },
        timer(pass, handle, x, weight, y));
    if (made == nullptr) {
      log_warning(str("cuDNN has no plan for a convolution of ", name_of(x.dtype()), " ", x.shape(),
                      " by ", weight.shape(), " (", why, "); a slower kernel of ours takes it"));
    }
    return made;
  });
  if (plan == nullptr) return false;
  Tensor operands[] = {x, weight, y};
  operands[result_of(pass)].mutable_raw();  // tells the tensor that it changes
  plan->run(handle, bindings(operands));
  return true;
}

/// Runs fn on a bf16 tensor that stands in for the f32 `dest`, then puts the result there.
template <class Fn>
bool through_bf16(const Dest& dest, Fn&& fn) {
  const Device device = dest.out.device();
  const CopyKernels& kernels = backend(device).copy;
  Tensor narrow = Tensor::empty(dest.out.shape(), DType::kBF16, device);
  if (!fn(narrow)) return false;
  Tensor out = dest.out;
  if (!dest.accumulate) {
    kernels.copy(narrow, out);
  } else {
    Tensor wide = Tensor::empty(out.shape(), out.dtype(), device);
    kernels.copy(narrow, wide);
    kernels.add_scaled(wide, 1.0, out);
  }
  return true;
}

bool is_f32_of_bf16(const Dest& dest, const Tensor& from) {
  return from.dtype() == DType::kBF16 && dest.out.dtype() == DType::kF32;
}

void forward(const Tensor& x, const Tensor& weight, const Tensor& bias,
             const Conv2dOptions& options, Tensor& y) {
  if (!run(ConvPass::kForward, false, options, x, weight, y)) {
    return own_heavy_kernels().conv.forward(x, weight, bias, options, y);
  }
  if (bias.defined()) add_bias(bias, y);
}

void backward_data(const Tensor& grad_y, const Tensor& weight, const Conv2dOptions& options,
                   const Dest& grad_x) {
  const auto into = [&](const Tensor& out, bool accumulate) {
    return run(ConvPass::kData, accumulate, options, out, weight, grad_y);
  };
  const bool done =
      is_f32_of_bf16(grad_x, grad_y)
          ? through_bf16(grad_x, [&](const Tensor& narrow) { return into(narrow, false); })
          : into(grad_x.out, grad_x.accumulate);
  if (!done) own_heavy_kernels().conv.backward_data(grad_y, weight, options, grad_x);
}

void backward_weight(const Tensor& grad_y, const Tensor& x, const Conv2dOptions& options,
                     const Dest& grad_weight) {
  const Shape& shape = grad_weight.out.shape();
  const bool widens = is_f32_of_bf16(grad_weight, x);
  if (widens && is_pointwise(shape, options)) {
    const MatmulProblem product{
        .m = shape[0], .n = shape[3], .k = x.numel() / x.dim(3), .transpose_a = true};
    return kLtMatmul.matmul(product, grad_y, x, Tensor(), grad_weight);
  }
  const auto into = [&](const Tensor& out, bool accumulate) {
    return run(ConvPass::kWeight, accumulate, options, x, out, grad_y);
  };
  const bool done =
      widens ? through_bf16(grad_weight, [&](const Tensor& narrow) { return into(narrow, false); })
             : into(grad_weight.out, grad_weight.accumulate);
  if (!done) own_heavy_kernels().conv.backward_weight(grad_y, x, options, grad_weight);
}

void backward_bias(const Tensor& grad_y, const Dest& grad_bias) {
  own_heavy_kernels().conv.backward_bias(grad_y, grad_bias);
}

}  // namespace

const ConvKernels kCudnnConv{.forward = forward,
                             .backward_data = backward_data,
                             .backward_weight = backward_weight,
                             .backward_bias = backward_bias};

}  // namespace lockstep::cuda
