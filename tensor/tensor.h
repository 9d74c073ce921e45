// Tensor: a dense, row-major block of elements on one device. A value of this type is a handle:
// copying it shares the memory. Views exist only as reshape and as a slice of the outermost
// dimension, so every kernel is a plain loop.
//
// A Tensor knows nothing of gradients; that is Variable's (autograd/variable.h).
#pragma once

#include "lockstep/tensor/device.h"
#include "lockstep/tensor/dtype.h"
#include "lockstep/tensor/shape.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace lockstep {

class Storage;

class Tensor {
 public:
  /// Undefined: no memory. Only defined() and assignment may be used.
  Tensor() = default;

  /// Uninitialised memory of `shape`; 256-byte aligned. Throws ArgumentError for more than 2^62
  /// bytes, std::bad_alloc when there is not so much memory.
  static Tensor empty(const Shape& shape, DType dtype, Device device = Device::cpu());
  static Tensor zeros(const Shape& shape, DType dtype, Device device = Device::cpu());
  /// A tensor over memory of somebody else, who keeps it alive as long as this or a view of it is
  /// used.
  static Tensor borrow(void* memory, const Shape& shape, DType dtype,
                       Device device = Device::cpu());
  /// A host tensor with a copy of `values`, whose count must be shape.numel().
  template <class T>
  static Tensor from(const std::vector<T>& values, const Shape& shape);

  bool defined() const { return storage_ != nullptr; }
  const Shape& shape() const { return shape_; }
  int ndim() const { return shape_.ndim(); }
  /// Negative i counts from the end.
  int64_t dim(int i) const { return shape_.dim(i); }
  int64_t numel() const { return shape_.numel(); }
  size_t nbytes() const { return static_cast<size_t>(numel()) * size_of(dtype_); }
  DType dtype() const { return dtype_; }
  Device device() const;

  /// The same memory under another shape; one extent may be -1 and is derived. Throws if the counts
  /// differ.
  Tensor reshape(std::initializer_list<int64_t> dims) const;
  Tensor reshape(const Shape& shape) const;
  /// The rows [begin, end) of the outermost dimension: the same memory.
  Tensor slice(int64_t begin, int64_t end) const;
  /// All memory from the start of this to the end of `last`, which lies behind it in the same
  /// allocation, as one dimension: neighbours in an arena, for a pass over all of them at once.
  Tensor through(const Tensor& last) const;

  /// The elements; throws if T is not the dtype. A pointer into device memory when the device is
  /// not the CPU.
  template <class T>
  const T* data() const {
    check_dtype(dtype_of<T>);
    return reinterpret_cast<const T*>(raw());
  }
  /// As data(), for writing: marks the memory as changed, so that a tensor saved for backward is
  /// known to be stale.
  template <class T>
  T* mutable_data() {
    check_dtype(dtype_of<T>);
    return reinterpret_cast<T*>(mutable_raw());
  }
  const std::byte* raw() const;
  std::byte* mutable_raw();
  /// From now on each access through any view of this memory throws ArgumentError with `why`, a
  /// string literal: for memory whose contents live elsewhere now, so that nobody reads what is
  /// stale.
  void retire(const char* why);
  /// All elements of a host tensor, copied out.
  template <class T>
  std::vector<T> to_vector() const {
    const T* first = data<T>();
    return std::vector<T>(first, first + numel());
  }
  /// The one element of a one-element host tensor, as a double.
  double item() const;

  /// Grows with every mutable access to the underlying memory, also through other views of it.
  uint64_t version() const;
  /// Whether this handle is the only one that refers to the memory.
  bool unique() const { return storage_.use_count() == 1; }
  /// Bytes from the start of the allocation to the first element.
  size_t offset_bytes() const { return offset_; }
  bool shares_memory(const Tensor& other) const {
    return storage_ != nullptr && storage_ == other.storage_;
  }

 private:
  void check_dtype(DType wanted) const;
  void require_usable() const;

  std::shared_ptr<Storage> storage_;
  size_t offset_ = 0;  // bytes
  Shape shape_;
  DType dtype_ = DType::kF32;
};

template <class T>
Tensor Tensor::from(const std::vector<T>& values, const Shape& shape) {
  check(static_cast<int64_t>(values.size()) == shape.numel(), "Tensor::from: shape ", shape,
        " wants ", shape.numel(), " values, got ", values.size());
  Tensor tensor = empty(shape, dtype_of<T>);
  if (!values.empty()) std::memcpy(tensor.mutable_raw(), values.data(), tensor.nbytes());
  return tensor;
}

}  // namespace lockstep
