#include "lockstep/tensor/live.h"

#include "lockstep/base/error.h"
#include "lockstep/tensor/memory.h"

#include <cstring>

namespace lockstep {
namespace {

// BERT-large by LAMB asks for 40 KB.
constexpr size_t kCapacity = size_t{1} << 18, kAlignment = 16;

}  // namespace

LiveNumbers::LiveNumbers(Device device)
    : block_(Tensor::zeros({int64_t{kCapacity}}, DType::kU8, device)), image_(kCapacity) {}

LiveNumbers::Scope::Scope(LiveNumbers& numbers, Pass pass) : numbers_(numbers) {
  check(current_ == nullptr, "LiveNumbers: one scope at a time");
  numbers.pass_ = pass;
  numbers.at_ = 0;
  if (pass == Pass::kCapture) numbers.used_ = 0;
  current_ = &numbers;
}

LiveNumbers::Scope::~Scope() { current_ = nullptr; }

void LiveNumbers::Scope::finish() {
  if (numbers_.at_ == numbers_.used_) return;
  throw Error(str("a captured step takes other numbers than when it was captured: ", numbers_.at_,
                  " bytes of ", numbers_.used_));
}

const void* LiveNumbers::place(const void* value, size_t bytes) {
  LiveNumbers* const numbers = current_;
  if (numbers == nullptr) return nullptr;
  const size_t at = numbers->at_, end = at + (bytes + kAlignment - 1) / kAlignment * kAlignment;
  const bool capturing = numbers->pass_ == Pass::kCapture;
  if (end > (capturing ? kCapacity : numbers->used_)) {
    throw Error(str("a captured step takes more numbers than there is room for: ", end, " bytes"));
  }
  std::memcpy(numbers->image_.data() + at, value, bytes);
  numbers->at_ = end;
  if (capturing) numbers->used_ = end;
  return numbers->block_.raw() + at;
}

void LiveNumbers::upload() {
  device_memory(block_.device()).copy(block_.mutable_raw(), image_.data(), used_);
}

}  // namespace lockstep
