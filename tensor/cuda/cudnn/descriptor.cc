#include "lockstep/tensor/cuda/cudnn/descriptor.h"

#include "lockstep/base/error.h"

namespace lockstep::cuda {

Descriptor::Descriptor(cudnnBackendDescriptorType_t type) {
  check_cudnn(cudnn().descriptor_create(type, &native_), "cudnnBackendCreateDescriptor");
}

Descriptor::~Descriptor() {
  if (native_ != nullptr) cudnn().descriptor_destroy(native_);
}

Descriptor& Descriptor::set(Name name, cudnnBackendAttributeType_t type, size_t count,
                            const void* values) {
  const cudnnStatus_t status =
      cudnn().descriptor_set(native_, name, type, static_cast<int64_t>(count), values);
  if (status != CUDNN_STATUS_SUCCESS) {
    check_cudnn(status, str("cudnnBackendSetAttribute of ", static_cast<int>(name)).c_str());
  }
  return *this;
}

Descriptor& Descriptor::finalize() {
  check_cudnn(cudnn().descriptor_finalize(native_), "cudnnBackendFinalize");
  return *this;
}

bool Descriptor::try_finalize() {
  return cudnn().descriptor_finalize(native_) == CUDNN_STATUS_SUCCESS;
}

int64_t Descriptor::get(Name name, cudnnBackendAttributeType_t type, int64_t count,
                        void* values) const {
  int64_t there = 0;
  const cudnnStatus_t status = cudnn().descriptor_get(native_, name, type, count, &there, values);
  if (status != CUDNN_STATUS_SUCCESS) {
    check_cudnn(status, str("cudnnBackendGetAttribute of ", static_cast<int>(name)).c_str());
  }
  return there;
}

}  // namespace lockstep::cuda
