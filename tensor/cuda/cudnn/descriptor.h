// A descriptor of cuDNN's graph API: an object with attributes, of use once it is finalized.
#pragma once

#include "lockstep/tensor/cuda/cudnn/api.h"

#include <cstdint>
#include <initializer_list>
#include <span>
#include <utility>

namespace lockstep::cuda {

/// Owns one. What refuses an attribute throws UnsupportedError.
class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type);
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : native_(std::exchange(other.native_, nullptr)) {}
  Descriptor& operator=(Descriptor&&) = delete;

  using Name = cudnnBackendAttributeName_t;
  Descriptor& set(Name name, cudnnBackendAttributeType_t type, size_t count, const void* values);
  Descriptor& set(Name name, int64_t value) { return set(name, CUDNN_TYPE_INT64, 1, &value); }
  Descriptor& set(Name name, std::span<const int64_t> values) {
    return set(name, CUDNN_TYPE_INT64, values.size(), values.data());
  }
  Descriptor& set(Name name, bool value) { return set(name, CUDNN_TYPE_BOOLEAN, 1, &value); }
  Descriptor& set(Name name, float value) { return set(name, CUDNN_TYPE_FLOAT, 1, &value); }
  Descriptor& set(Name name, cudnnDataType_t value) {
    return set(name, CUDNN_TYPE_DATA_TYPE, 1, &value);
  }
  Descriptor& set(Name name, const Descriptor& value) {
    return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value.native_);
  }
  Descriptor& finalize();
  /// False when cuDNN refuses; last_error() of cudnn() has its reason.
  bool try_finalize();

  /// Up to `count` values of an attribute into `values`; returns how many there are.
  int64_t get(Name name, cudnnBackendAttributeType_t type, int64_t count, void* values) const;

  cudnnBackendDescriptor_t native() const { return native_; }

 private:
  cudnnBackendDescriptor_t native_ = nullptr;
};

}  // namespace lockstep::cuda
