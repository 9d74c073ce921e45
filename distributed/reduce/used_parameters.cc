#include "lockstep/distributed/reduce/used_parameters.h"

#include <cstring>
#include <utility>

namespace lockstep {

UsedParameters::UsedParameters(size_t count)
    : here_(Tensor::zeros({static_cast<int64_t>(count)}, DType::kI32)),
      ranks_(Tensor::zeros({static_cast<int64_t>(count)}, DType::kI32)) {}

void UsedParameters::update(size_t i, bool reached, bool kept) {
  int32_t& here = here_.mutable_data<int32_t>()[i];
  here = reached || (here != 0 && kept);
}

int UsedParameters::ranks_with(size_t i) const { return ranks_.data<int32_t>()[i]; }

void UsedParameters::exchange(ProcessGroup& group) {
  std::memcpy(ranks_.mutable_raw(), here_.raw(), here_.nbytes());
  if (group.size() > 1) work_ = group.all_reduce(ranks_, ReduceOp::kSum);
}

void UsedParameters::wait() {
  if (const WorkPtr work = std::exchange(work_, nullptr)) work->wait();
}

void UsedParameters::forget() {
  try {
    wait();
  } catch (const std::exception&) {
    // Who waits for the buckets of the same group is told; here the memory only has to be free.
  }
  std::memset(here_.mutable_raw(), 0, here_.nbytes());
}

}  // namespace lockstep
