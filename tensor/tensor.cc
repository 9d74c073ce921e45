#include "lockstep/tensor/tensor.h"

#include "lockstep/tensor/memory.h"
#include "lockstep/tensor/storage.h"

namespace lockstep {
namespace {

/// Over 2^62 the count of bytes would wrap, and little memory pass for much.
size_t checked_bytes(const Shape& shape, DType dtype) {
  const auto size = static_cast<int64_t>(size_of(dtype));
  check(shape.numel() <= (int64_t{1} << 62) / size, "tensor: ", name_of(dtype), " ", shape,
        " takes more than 2^62 bytes");
  return static_cast<size_t>(shape.numel() * size);
}

}  // namespace

const char* name_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "f32";
    case DType::kF64:
      return "f64";
    case DType::kBF16:
      return "bf16";
    case DType::kI64:
      return "i64";
    case DType::kI32:
      return "i32";
    case DType::kU8:
      return "u8";
    case DType::kF16:
      return "f16";
  }
  return "?";
}

Tensor Tensor::empty(const Shape& shape, DType dtype, Device device) {
  const size_t bytes = checked_bytes(shape, dtype);
  Tensor tensor;
  tensor.shape_ = shape;
  tensor.dtype_ = dtype;
  tensor.storage_ = std::make_shared<Storage>(bytes, device, device_memory(device).allocator);
  return tensor;
}

Tensor Tensor::zeros(const Shape& shape, DType dtype, Device device) {
  Tensor tensor = empty(shape, dtype, device);
  device_memory(device).zero(tensor.mutable_raw(), tensor.nbytes());
  return tensor;
}

Tensor Tensor::borrow(void* memory, const Shape& shape, DType dtype, Device device) {
  const size_t bytes = checked_bytes(shape, dtype);
  Tensor tensor;
  tensor.shape_ = shape;
  tensor.dtype_ = dtype;
  tensor.storage_ = std::make_shared<Storage>(memory, bytes, device);
  return tensor;
}

Device Tensor::device() const { return storage_->device(); }

Tensor Tensor::reshape(std::initializer_list<int64_t> dims) const {
  std::array<int64_t, Shape::kMaxDims> extents{};
  check(dims.size() <= extents.size(), "reshape: too many dimensions: ", dims.size());
  int64_t known = 1;
  int unknown = -1;
  int i = 0;
  for (int64_t extent : dims) {
    if (extent == -1) {
      check(unknown < 0, "reshape: only one extent can be -1");
      unknown = i;
    } else {
      known *= extent;
    }
    extents[static_cast<size_t>(i++)] = extent;
  }
  if (unknown >= 0) {
    check(known > 0 && numel() % known == 0, "reshape: ", shape_, " has ", numel(),
          " elements, which the given extents (product ", known, ") do not divide");
    extents[static_cast<size_t>(unknown)] = numel() / known;
  }
  return reshape(Shape(extents.data(), i));
}

Tensor Tensor::reshape(const Shape& shape) const {
  check(shape.numel() == numel(), "reshape: ", shape_, " has ", numel(), " elements, ", shape,
        " has ", shape.numel());
  Tensor view = *this;
  view.shape_ = shape;
  return view;
}

Tensor Tensor::slice(int64_t begin, int64_t end) const {
  check(ndim() > 0, "slice: a scalar has no dimension to slice");
  check(0 <= begin && begin <= end && end <= shape_[0], "slice: [", begin, ", ", end,
        ") is not within the outermost dimension of ", shape_);
  Tensor view = *this;
  view.shape_ = shape_.with_dim(0, end - begin);
  view.offset_ += static_cast<size_t>(begin * shape_.numel(1, ndim())) * size_of(dtype_);
  return view;
}

Tensor Tensor::through(const Tensor& last) const {
  check(shares_memory(last) && dtype_ == last.dtype_ && offset_ <= last.offset_,
        "through: wanted a later tensor of the same allocation and dtype");
  Tensor view = *this;
  const size_t bytes = last.offset_ + last.nbytes() - offset_;
  view.shape_ = Shape{static_cast<int64_t>(bytes / size_of(dtype_))};
  return view;
}

void Tensor::require_usable() const {
  check(defined(), "tensor: undefined");
  if (const char* why = storage_->retired()) throw ArgumentError(str("tensor: ", why));
}

void Tensor::retire(const char* why) {
  check(defined(), "tensor: undefined");
  storage_->retire(why);
}

const std::byte* Tensor::raw() const {
  require_usable();
  return storage_->data() + offset_;
}

std::byte* Tensor::mutable_raw() {
  require_usable();
  storage_->changed();
  return storage_->data() + offset_;
}

double Tensor::item() const {
  check(defined() && numel() == 1, "item: wanted one element, got ", shape_);
  check(device().is_cpu(), "item: the tensor is on ", to_string(device()),
        "; copy it to the CPU first");
  return dispatch_any(dtype_, [&](auto zero) -> double {
    using T = decltype(zero);
    return static_cast<double>(static_cast<compute_t<T>>(*data<T>()));
  });
}

uint64_t Tensor::version() const { return storage_ ? storage_->version() : 0; }

void Tensor::check_dtype(DType wanted) const {
  check(dtype_ == wanted, "tensor: the elements are ", name_of(dtype_), ", asked for as ",
        name_of(wanted));
}

}  // namespace lockstep
