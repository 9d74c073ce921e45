#include "lockstep/tensor/shape.h"

#include "lockstep/base/error.h"

#include <algorithm>

namespace lockstep {

Shape::Shape(std::initializer_list<int64_t> dims)
    : Shape(dims.begin(), static_cast<int>(dims.size())) {}

Shape::Shape(const int64_t* dims, int ndim) : ndim_(ndim) {
  check(ndim >= 0 && ndim <= kMaxDims, "shape: wanted at most ", kMaxDims, " dimensions, got ",
        ndim);
  int64_t without_zeros = 1;
  for (int i = 0; i < ndim; ++i) {
    check(dims[i] >= 0, "shape: dimension ", i, " is negative: ", dims[i]);
    const int64_t extent = std::max<int64_t>(dims[i], 1);
    check(without_zeros <= (int64_t{1} << 62) / extent, "shape: the number of elements overflows");
    without_zeros *= extent;
    dims_[static_cast<size_t>(i)] = dims[i];
    numel_ *= dims[i];
  }
}

int Shape::axis(int i, const char* op) const {
  const int at = i < 0 ? i + ndim_ : i;
  check(at >= 0 && at < ndim_, op, ": dimension ", i, " of ", *this, " does not exist");
  return at;
}

int64_t Shape::dim(int i) const { return (*this)[axis(i, "shape")]; }

Shape Shape::with_dim(int i, int64_t extent) const {
  auto dims = dims_;
  dims[static_cast<size_t>(axis(i, "shape"))] = extent;
  return Shape(dims.data(), ndim_);
}

int64_t Shape::numel(int first, int last) const {
  int64_t product = 1;
  for (int i = first; i < last; ++i) product *= (*this)[i];
  return product;
}

bool Shape::operator==(const Shape& other) const {
  return ndim_ == other.ndim_ && std::equal(begin(), end(), other.begin());
}

std::string Shape::to_string() const {
  std::string text = "[";
  for (int i = 0; i < ndim_; ++i) {
    if (i > 0) text += ", ";
    text += std::to_string((*this)[i]);
  }
  return text + "]";
}

}  // namespace lockstep
