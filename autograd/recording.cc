#include "lockstep/autograd/recording.h"

#include "lockstep/autograd/record.h"

#include <utility>

namespace lockstep {
namespace {

thread_local bool recording = true;
thread_local bool outline_only = false;

}  // namespace

NoGrad::NoGrad() : before_(std::exchange(recording, false)) {}
NoGrad::~NoGrad() { recording = before_; }
RecordAgain::RecordAgain() : before_(std::exchange(recording, true)) {}
RecordAgain::~RecordAgain() { recording = before_; }
bool grad_enabled() { return recording; }

OutlineOnly::OutlineOnly() : before_(std::exchange(outline_only, true)) {}
OutlineOnly::~OutlineOnly() { outline_only = before_; }
bool OutlineOnly::active() { return outline_only; }

const Tensor& Saved::get() const {
  check(tensor_.version() == version_,
        "backward: a tensor that an op saved was changed in place after the op ran; change a copy, "
        "or change it after backward");
  return tensor_;
}

}  // namespace lockstep
