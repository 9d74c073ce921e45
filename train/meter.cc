#include "lockstep/train/meter.h"

#include "lockstep/base/error.h"
#include "lockstep/tensor/ops/copy.h"

#include <algorithm>
#include <utility>

namespace lockstep {
namespace {

// Losses that wait to be read, at most: they are a few hundred bytes each.
constexpr size_t kMostUnread = 1024;

double value_of(const Tensor& one) { return ops::to_device(one, Device::cpu()).item(); }

int64_t count_of(const Tensor& correct) {
  return correct.defined() ? static_cast<int64_t>(value_of(correct)) : 0;
}

}  // namespace

void Meter::add(double mean_loss, int64_t correct, int64_t counted) {
  sums_[0] += mean_loss * static_cast<double>(counted);
  sums_[1] += static_cast<double>(correct);
  sums_[2] += static_cast<double>(counted);
}

void Meter::add(const Tensor& mean_loss, const Tensor& correct, int64_t counted) {
  check(!correct.defined() || (correct.dtype() == DType::kI64 && correct.numel() == 1),
        "Meter::add: wanted how many were right as one i64, got ", name_of(correct.dtype()), " ",
        correct.shape());
  if (mean_loss.device().is_cpu()) return add(mean_loss.item(), count_of(correct), counted);
  unread_.push_back({mean_loss, correct, counted});
  if (unread_.size() == kMostUnread) read();
}

void Meter::read() {
  for (const Unread& each : std::exchange(unread_, {})) {
    add(value_of(each.mean_loss), count_of(each.correct), each.counted);
  }
}

const std::array<double, 3>& Meter::sums() {
  read();
  return sums_;
}

void Meter::set_sums(const std::array<double, 3>& sums) {
  unread_.clear();
  sums_ = sums;
}

Meter::Result Meter::reduce(ProcessGroup& group) {
  read();
  Tensor sums = Tensor::empty(Shape{3}, DType::kF64);
  std::copy(sums_.begin(), sums_.end(), sums.mutable_data<double>());
  group.all_reduce(sums)->wait();
  const double* all = sums.data<double>();
  return {all[0] / all[2], all[1] / all[2], static_cast<int64_t>(all[2])};
}

}  // namespace lockstep
