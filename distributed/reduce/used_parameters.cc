#include "lockstep/distributed/reduce/used_parameters.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace lockstep {

UsedParameters::UsedParameters(size_t count)
    : here_(Tensor::zeros({static_cast<int64_t>(count)}, DType::kI32)),
      ranks_(Tensor::zeros({static_cast<int64_t>(count)}, DType::kI32)) {}

void UsedParameters::add(size_t i) { here_.mutable_data<int32_t>()[i] = 1; }

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

UsedParameters::Lack UsedParameters::first_lack(ProcessGroup& group) const {
  const int64_t count = here_.numel();
  Tensor all = Tensor::empty({group.size(), count}, DType::kI32);
  group.all_gather(all, here_)->wait();
  Lack lack;
  int ranks = 0;
  for (int rank = group.size() - 1; rank >= 0; --rank) {
    const int32_t* row = all.data<int32_t>() + rank * count;
    if (std::find(row, row + count, 0) == row + count) continue;
    ++ranks;
    lack.rank = rank;
    lack.parameters.clear();
    for (int64_t i = 0; i < count; ++i) {
      if (row[i] == 0) lack.parameters.push_back(static_cast<size_t>(i));
    }
  }
  lack.other_ranks = ranks - 1;
  return lack;
}

}  // namespace lockstep
