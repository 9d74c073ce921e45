#include "lockstep/train/step_agreement.h"

#include "lockstep/base/error.h"
#include "lockstep/distributed/comm/op_label.h"

#include <algorithm>
#include <utility>

namespace lockstep {

StepAgreement::StepAgreement(ProcessGroup& group, double seconds, Now now)
    : group_(group),
      seconds_(seconds),
      now_(std::move(now)),
      values_(Tensor::empty({3}, DType::kI64)) {
  check(seconds >= 0, "StepAgreement: wanted at least 0 seconds, got ", seconds);
}

bool StepAgreement::due() { return ++steps_ >= interval_; }

/// Of this rank's steps since the last that took part; 0: there is none yet.
int64_t StepAgreement::step_us() const {
  if (started_ == std::chrono::steady_clock::time_point{} || steps_ == 0) return 0;
  return std::chrono::duration_cast<std::chrono::microseconds>(now_() - started_).count() / steps_;
}

void StepAgreement::start(const StepRequest& mine) {
  check(work_ == nullptr, "StepAgreement: wanted finish() before the next start()");
  auto* values = values_.mutable_data<int64_t>();
  values[0] = mine.stop_signal;
  values[1] = mine.save;
  values[2] = 0;
  if (seconds_ > 0) {
    values[2] = step_us();
    started_ = now_();
  }
  steps_ = 0;
  const OpLabel label("whether to stop or to save");
  work_ = group_.all_reduce(values_, ReduceOp::kMax);
}

StepRequest StepAgreement::finish() {
  const WorkPtr work = std::exchange(work_, nullptr);
  if (work == nullptr) return {};
  work->wait();
  const auto* values = values_.data<int64_t>();
  const auto fitting = static_cast<int64_t>(seconds_ * 1e6) / std::max<int64_t>(1, values[2]);
  // Twice as many at most: the first steps may not be like those to come.
  interval_ = values[2] == 0 ? 1 : std::clamp<int64_t>(fitting, 1, 2 * interval_);
  return {.stop_signal = values[0], .save = values[1]};
}

StepRequest StepAgreement::exchange(const StepRequest& mine) {
  start(mine);
  return finish();
}

}  // namespace lockstep
