#include "lockstep/train/step_agreement.h"

#include "lockstep/base/error.h"
#include "lockstep/distributed/comm/op_label.h"

#include <utility>

namespace lockstep {

StepAgreement::StepAgreement(ProcessGroup& group)
    : group_(group), values_(Tensor::empty({2}, DType::kI64)) {}

void StepAgreement::start(const StepRequest& mine) {
  check(work_ == nullptr, "StepAgreement: wanted finish() before the next start()");
  auto* values = values_.mutable_data<int64_t>();
  values[0] = mine.stop_signal;
  values[1] = mine.save;
  const OpLabel label("whether to stop or to save");
  work_ = group_.all_reduce(values_, ReduceOp::kMax);
}

StepRequest StepAgreement::finish() {
  const WorkPtr work = std::exchange(work_, nullptr);
  if (work == nullptr) return {};
  work->wait();
  const auto* values = values_.data<int64_t>();
  return {.stop_signal = values[0], .save = values[1]};
}

StepRequest StepAgreement::exchange(const StepRequest& mine) {
  start(mine);
  return finish();
}

}  // namespace lockstep
