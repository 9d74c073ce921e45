#include "lockstep/tensor/cuda/cudnn/conv_plan.h"

#include "lockstep/base/error.h"

namespace lockstep::cuda {
namespace {

/// The attributes of one of the three passes.
struct Names {
  cudnnBackendDescriptorType_t operation;
  cudnnBackendAttributeName_t conv, x, weight, y, alpha, beta;
};

Names names_of(ConvPass pass) {
  switch (pass) {
    case ConvPass::kForward:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
    case ConvPass::kData:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    case ConvPass::kWeight:
      break;
  }
  return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
}

Graph graph_of(const ConvProblem& p) {
  Graph graph;
  const cudnnDataType_t type = p.dtype == DType::kBF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
  const auto tensor = [&](int64_t id, const Shape& shape) -> const Descriptor& {
    const Nchw at = nchw(shape);
    return graph.tensor({.id = id, .dims = at.dims, .strides = at.strides, .type = type});
  };
  const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  Descriptor& conv = graph.keep(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  conv.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, int64_t{2})
      .set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT)
      .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode)
      .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, p.options.padding)
      .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, p.options.padding)
      .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, p.options.stride)
      .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, p.options.dilation)
      .finalize();
  const Names names = names_of(p.pass);
  Descriptor& operation = graph.keep(names.operation);
  operation.set(names.conv, conv)
      .set(names.x, tensor(kConvX, p.x))
      .set(names.weight, tensor(kConvWeight, p.weight))
      .set(names.y, tensor(kConvY, p.y))
      .set(names.alpha, 1.0f)
      .set(names.beta, p.accumulate ? 1.0f : 0.0f)
      .finalize();
  graph.add(operation);
  return graph;
}

}  // namespace

std::vector<std::unique_ptr<Plan>> plan_convolution(const ConvProblem& problem,
                                                    const PlanTarget& target,
                                                    const PlanWanted& wanted, std::string* why) {
  const bool exact_f32 = problem.dtype == DType::kF32 && !problem.tf32;
  try {
    return Plan::suggest(graph_of(problem), target, exact_f32, wanted, why);
  } catch (const UnsupportedError& refused) {
    if (why != nullptr) *why = refused.what();
    return {};
  }
}

}  // namespace lockstep::cuda
