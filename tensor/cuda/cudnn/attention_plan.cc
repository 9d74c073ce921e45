#include "lockstep/tensor/cuda/cudnn/attention_plan.h"

#include "lockstep/base/error.h"

#include <utility>

namespace lockstep::cuda {
namespace {

constexpr cudnnDataType_t kWide = CUDNN_DATA_FLOAT;
constexpr cudnnDataType_t kNarrow = CUDNN_DATA_BFLOAT16;

/// Writes the operations down; a value is the descriptor of a tensor.
class Builder {
 public:
  using Value = const Descriptor&;

  explicit Builder(const AttentionProblem& problem) : p_(problem), l_(problem.layout) {}

  Graph forward() {
    Value scores = masked_scores();
    Value top = inside(kPerQuery, kWide);
    reduce(CUDNN_REDUCE_TENSOR_MAX, scores, top);
    Value exponentials = apply(CUDNN_POINTWISE_EXP, subtract(scores, top));
    Value sum = inside(kPerQuery, kWide);
    reduce(CUDNN_REDUCE_TENSOR_ADD, exponentials, sum);
    Value log = inside(kPerQuery, kWide);
    pointwise(CUDNN_POINTWISE_LOG, sum, nullptr, log);
    pointwise(CUDNN_POINTWISE_ADD, top, &log, per_query(kAttentionLse));
    Value p = inside(kScores, p_.drop ? kWide : kNarrow);
    pointwise(CUDNN_POINTWISE_DIV, exponentials, &sum, p);
    Value weights = p_.drop ? dropped(p, kNarrow) : p;
    multiply(weights, operand(kAttentionV, l_.v, l_.keys),
             operand(kAttentionOut, l_.out, l_.queries));
    return std::move(graph_);
  }

  /// With O = (P * keep * f) V and delta = the row sums of dO * O:
  /// dV = (P * keep * f)^T dO, dS = P * (keep * dO V^T - delta / f) * f, dQ = scale dS K,
  /// dK = scale dS^T Q.
  Graph backward() {
    Value grad_out = operand(kAttentionGradOut, l_.out, l_.queries);
    Value product = inside(kRows, kWide);
    pointwise(CUDNN_POINTWISE_MUL, grad_out, &operand(kAttentionOut, l_.out, l_.queries), product);
    Value sums = inside(kPerQuery, kWide);
    reduce(CUDNN_REDUCE_TENSOR_ADD, product, sums);
    Value delta = per_query(kAttentionDelta);
    pointwise(CUDNN_POINTWISE_MUL, sums, &by_value(kAttentionInverse), delta);

    Value scores = masked_scores();
    Value p = apply(CUDNN_POINTWISE_EXP, subtract(scores, per_query(kAttentionLse)));
    multiply(transposed(p_.drop ? dropped(p, kWide) : p), grad_out,
             operand(kAttentionGradV, l_.v, l_.keys));

    Value grad_p = inside(kScores, kWide);
    multiply(grad_out, operand_transposed(kAttentionV, l_.v, l_.keys), grad_p);
    Value kept = p_.drop ? times(grad_p, keep()) : grad_p;
    Value unscaled = times(subtract(kept, delta), p);
    Value grad_scores = inside(kScores, kWide);
    pointwise(CUDNN_POINTWISE_MUL, p_.drop ? times(unscaled, factor()) : unscaled, &scale(),
              grad_scores);
    multiply(transposed(grad_scores), *q_, operand(kAttentionGradK, l_.k, l_.keys));
    Value k = graph_.tensor(spec(next_++, {l_.batch, l_.heads, l_.keys, l_.head_dim},
                                 {l_.k.batch, l_.k.head, l_.k.row, 1}, kNarrow, true));
    reshape(*k_transposed_, k);
    // cuDNN adds up this one in pieces, in f32; that it exists only inside makes it choose the
    // engine that keeps the pieces itself.
    Value grad_q = inside(kRows, kWide);
    multiply(grad_scores, k, grad_q);
    pointwise(CUDNN_POINTWISE_IDENTITY, grad_q, nullptr,
              operand(kAttentionGradQ, l_.q, l_.queries));
    return std::move(graph_);
  }

 private:
  enum Form { kScores, kPerQuery, kRows };

  static GraphTensor spec(int64_t id, std::array<int64_t, 4> dims, std::array<int64_t, 4> strides,
                          cudnnDataType_t type, bool inside) {
    return {.id = id, .dims = dims, .strides = strides, .type = type, .inside = inside};
  }
  std::array<int64_t, 4> dims(Form form) const {
    return {l_.batch, l_.heads, l_.queries,
            form == kScores ? l_.keys
            : form == kRows ? l_.head_dim
                            : 1};
  }
  static std::array<int64_t, 4> dense(const std::array<int64_t, 4>& d) {
    return {d[1] * d[2] * d[3], d[2] * d[3], d[3], 1};
  }
  Value inside(Form form, cudnnDataType_t type) {
    return graph_.tensor(spec(next_++, dims(form), dense(dims(form)), type, true));
  }
  Value per_query(int64_t id) {
    return graph_.tensor(spec(id, dims(kPerQuery), dense(dims(kPerQuery)), kWide, false));
  }
  Value operand(int64_t id, const AttentionSteps& at, int64_t rows) {
    return graph_.tensor(spec(id, {l_.batch, l_.heads, rows, l_.head_dim},
                              {at.batch, at.head, at.row, 1}, kNarrow, false));
  }
  Value operand_transposed(int64_t id, const AttentionSteps& at, int64_t rows) {
    return graph_.tensor(spec(id, {l_.batch, l_.heads, l_.head_dim, rows},
                              {at.batch, at.head, 1, at.row}, kNarrow, false));
  }
  Value by_value(int64_t id) { return graph_.tensor({.id = id, .by_value = true}); }
  Value scale() {
    if (scale_ == nullptr) scale_ = &by_value(kAttentionScale);
    return *scale_;
  }
  Value factor() {
    if (factor_ == nullptr) factor_ = &by_value(kAttentionFactor);
    return *factor_;
  }
  Value keep() {
    if (keep_ == nullptr) {
      keep_ =
          &graph_.tensor(spec(kAttentionKeep, dims(kScores), dense(dims(kScores)), kNarrow, false));
    }
    return *keep_;
  }

  /// scale q k^T with padding and causality.
  Value masked_scores() {
    q_ = &operand(kAttentionQ, l_.q, l_.queries);
    k_transposed_ = &operand_transposed(kAttentionK, l_.k, l_.keys);
    Value products = inside(kScores, kWide);
    multiply(*q_, *k_transposed_, products);
    const Descriptor* scores = &times(products, scale());
    if (p_.padding) {
      Value padding = graph_.tensor(spec(kAttentionPadding, {l_.batch, 1, 1, l_.keys},
                                         {l_.keys, l_.keys, l_.keys, 1}, kNarrow, false));
      scores = &combine(CUDNN_POINTWISE_ADD, *scores, padding);
    }
    if (p_.causal) {
      Value row = index(*scores, 2), column = index(*scores, 3);
      Value seen = inside(kScores, CUDNN_DATA_BOOLEAN);
      pointwise(CUDNN_POINTWISE_CMP_GE, row, &column, seen);
      Value shown = inside(kScores, kWide);
      pointwise(CUDNN_POINTWISE_BINARY_SELECT, *scores, &by_value(kAttentionHidden), shown, &seen);
      scores = &shown;
    }
    return *scores;
  }
  Value dropped(Value p, cudnnDataType_t type) {
    Value kept = times(p, keep());
    Value result = inside(kScores, type);
    pointwise(CUDNN_POINTWISE_MUL, kept, &factor(), result);
    return result;
  }

  Value apply(cudnnPointwiseMode_t mode, Value x) {
    Value y = inside(kScores, kWide);
    pointwise(mode, x, nullptr, y);
    return y;
  }
  Value combine(cudnnPointwiseMode_t mode, Value x, Value b) {
    Value y = inside(kScores, kWide);
    pointwise(mode, x, &b, y);
    return y;
  }
  Value times(Value x, Value b) { return combine(CUDNN_POINTWISE_MUL, x, b); }
  Value subtract(Value x, Value b) { return combine(CUDNN_POINTWISE_SUB, x, b); }
  Value index(Value like, int64_t axis) {
    Value y = inside(kScores, CUDNN_DATA_INT32);
    pointwise(CUDNN_POINTWISE_GEN_INDEX, like, nullptr, y, nullptr, axis);
    return y;
  }
  /// Its columns for its rows, in bf16.
  Value transposed(Value scores) {
    const auto d = dims(kScores);
    Value y = graph_.tensor(spec(next_++, {d[0], d[1], d[3], d[2]},
                                 {d[1] * d[2] * d[3], d[2] * d[3], 1, d[3]}, kNarrow, true));
    reshape(scores, y);
    return y;
  }

  void pointwise(cudnnPointwiseMode_t mode, Value x, const Descriptor* b, Value y,
                 const Descriptor* t = nullptr, int64_t axis = -1) {
    Descriptor& kind = graph_.keep(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    kind.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode)
        .set(CUDNN_ATTR_POINTWISE_MATH_PREC, kWide);
    if (axis >= 0) kind.set(CUDNN_ATTR_POINTWISE_AXIS, axis);
    kind.finalize();
    Descriptor& o = graph_.keep(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    o.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, kind)
        .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    if (b != nullptr) o.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *b);
    if (t != nullptr) o.set(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, *t);
    graph_.add(o.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y).finalize());
  }
  void reduce(cudnnReduceTensorOp_t operation, Value x, Value y) {
    Descriptor& kind = graph_.keep(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    kind.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, kWide)
        .set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &operation)
        .finalize();
    Descriptor& o = graph_.keep(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    graph_.add(o.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, kind)
                   .set(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x)
                   .set(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y)
                   .finalize());
  }
  void multiply(Value a, Value b, Value c) {
    Descriptor& kind = graph_.keep(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    kind.set(CUDNN_ATTR_MATMUL_COMP_TYPE, kWide).finalize();
    Descriptor& o = graph_.keep(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    graph_.add(o.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, kind)
                   .set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, a)
                   .set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, b)
                   .set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, c)
                   .finalize());
  }
  void reshape(Value x, Value y) {
    Descriptor& o = graph_.keep(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    graph_.add(o.set(CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x)
                   .set(CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y)
                   .finalize());
  }

  const AttentionProblem& p_;
  const AttentionLayout& l_;
  Graph graph_;
  int64_t next_ = 1000;  // ids inside the graph
  const Descriptor* q_ = nullptr;
  const Descriptor* k_transposed_ = nullptr;
  const Descriptor* scale_ = nullptr;
  const Descriptor* factor_ = nullptr;
  const Descriptor* keep_ = nullptr;
};

}  // namespace

std::vector<std::unique_ptr<Plan>> plan_attention(const AttentionProblem& problem,
                                                  const PlanTarget& target,
                                                  const PlanWanted& wanted, std::string* why) {
  try {
    Builder builder(problem);
    return Plan::suggest(problem.backward ? builder.backward() : builder.forward(), target, false,
                         wanted, why);
  } catch (const UnsupportedError& refused) {
    if (why != nullptr) *why = refused.what();
    return {};
  }
}

}  // namespace lockstep::cuda
