#include "lockstep/autograd/autocast.h"

#include <utility>

namespace lockstep {
namespace {

thread_local DType precision = DType::kF32;

DType checked(DType dtype) {
  check(dtype == DType::kBF16 || dtype == DType::kF32,
        "Autocast: wanted bf16, or f32 for none, got ", name_of(dtype));
  return dtype;
}

}  // namespace

Autocast::Autocast(DType dtype) : before_(std::exchange(precision, checked(dtype))) {}
Autocast::~Autocast() { precision = before_; }
DType Autocast::current() { return precision; }

}  // namespace lockstep
