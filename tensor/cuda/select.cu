#include "lockstep/tensor/ops/select.h"

#include "lockstep/tensor/cuda/strided.h"
#include "lockstep/tensor/cuda/tables.h"

namespace lockstep::LOCKSTEP_GPU {
namespace {

struct Comparison {
  CompareOp op;  // the same in all threads
  template <class C>
  __device__ uint8_t operator()(C u, C v) const {
    switch (op) {
      case CompareOp::kGt:
        return u > v;
      case CompareOp::kLt:
        return u < v;
      case CompareOp::kGe:
        return u >= v;
      case CompareOp::kLe:
        return u <= v;
      case CompareOp::kEq:
        return u == v;
      case CompareOp::kNe:
        return u != v;
    }
    return 0;
  }
};

struct Choice {
  template <class C>
  __device__ C operator()(uint8_t mask, C u, C v) const {
    return mask != 0 ? u : v;
  }
};

struct Kept {
  bool value;
  template <class C>
  __device__ C operator()(C v, uint8_t mask) const {
    return (mask != 0) == value ? v : C(0);
  }
};

void compare(CompareOp op, const Tensor& a, const Tensor& b, Tensor& mask) {
  const auto loop = broadcast_loop<3>(mask.shape(), {mask.shape(), a.shape(), b.shape()});
  dispatch_any(a.dtype(), [&](auto zero) {
    using T = decltype(zero);
    map_strided(loop, Comparison{op}, mask.mutable_data<uint8_t>(), false, a.data<T>(),
                b.data<T>());
  });
}

void where(const Tensor& mask, const Tensor& a, const Tensor& b, Tensor& y) {
  const auto loop = broadcast_loop<4>(y.shape(), {y.shape(), mask.shape(), a.shape(), b.shape()});
  dispatch_floating(a.dtype(), "where", [&](auto zero) {
    using T = decltype(zero);
    map_strided(loop, Choice{}, y.mutable_data<T>(), false, mask.data<uint8_t>(), a.data<T>(),
                b.data<T>());
  });
}

void keep_where(const Tensor& x, const Tensor& mask, bool value, const Dest& y) {
  const auto loop = broadcast_loop<3>(x.shape(), {x.shape(), x.shape(), mask.shape()});
  dispatch_floating(x.dtype(), "where_backward", [&](auto zero) {
    using T = decltype(zero);
    Tensor target = y.out;
    map_strided(loop, Kept{value}, target.mutable_data<T>(), y.accumulate, x.data<T>(),
                mask.data<uint8_t>());
  });
}

}  // namespace

const SelectKernels kSelect{.compare = compare, .where = where, .keep_where = keep_where};

}  // namespace lockstep::LOCKSTEP_GPU
