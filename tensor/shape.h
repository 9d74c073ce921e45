// The extent of a dense, row-major tensor: up to eight dimensions, kept without an allocation.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace lockstep {

class Shape {
 public:
  static constexpr int kMaxDims = 8;

  /// No dimensions: a scalar, one element.
  Shape() = default;
  /// Throws ArgumentError for a negative extent, more than kMaxDims of them, or a product over
  /// 2^62; extents of 0 are left out of it, so that the product of any of them fits too.
  Shape(std::initializer_list<int64_t> dims);
  Shape(const int64_t* dims, int ndim);

  int ndim() const { return ndim_; }
  int64_t numel() const { return numel_; }
  /// No bounds check: 0 <= i < ndim().
  int64_t operator[](int i) const { return dims_[static_cast<size_t>(i)]; }
  /// Dimension i counted from the start; negative i counts from the end. Throws ArgumentError,
  /// naming `op`, out of range.
  int axis(int i, const char* op) const;
  /// The extent of that dimension.
  int64_t dim(int i) const;
  const int64_t* begin() const { return dims_.data(); }
  const int64_t* end() const { return dims_.data() + ndim_; }

  /// A copy in which dimension i (negative from the end) is `extent`.
  Shape with_dim(int i, int64_t extent) const;
  /// Product of the extents in [first, last).
  int64_t numel(int first, int last) const;

  bool operator==(const Shape& other) const;
  /// "[2, 3]".
  std::string to_string() const;

 private:
  std::array<int64_t, kMaxDims> dims_{};
  int ndim_ = 0;
  int64_t numel_ = 1;
};

/// For messages: str("got ", shape).
template <class Stream>
Stream& operator<<(Stream& out, const Shape& shape) {
  out << shape.to_string();
  return out;
}

}  // namespace lockstep
