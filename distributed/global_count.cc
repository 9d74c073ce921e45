#include "lockstep/distributed/global_count.h"

#include "lockstep/autograd/ops/elementwise.h"
#include "lockstep/distributed/comm/op_label.h"

#include <cmath>

namespace lockstep {

GlobalCount::GlobalCount(ProcessGroup& group, double local_count)
    : group_(&group), local_(local_count) {
  const OpLabel label("number of items");
  // A bad count travels too: a rank that threw alone would leave the others waiting.
  const bool good = std::isfinite(local_count) && local_count >= 0;
  totals_ = Tensor::from<double>({good ? local_count : 0, good ? 0.0 : 1.0}, {2});
  work_ = group.all_reduce(totals_);
}

double GlobalCount::get() {
  if (work_ != nullptr) work_->wait();
  work_ = nullptr;
  const double bad = totals_.data<double>()[1];
  check(bad == 0, "global_count: wanted finite counts of at least 0, but ", bad, " of ",
        group_->size(), " ranks have another; this rank, ", group_->rank(), ", has ", local_);
  return totals_.data<double>()[0];
}

double global_count(ProcessGroup& group, double local_count) {
  return GlobalCount(group, local_count).get();
}

double mean_scale(ProcessGroup& group, double local_count) {
  const double total = global_count(group, local_count);
  check(total > 0, "mean_scale: no rank has a sample, so there is no mean; leave this step out on ",
        "every rank");
  return group.size() / total;
}

Variable mean_over_ranks(const Variable& loss_sum, double local_count, ProcessGroup& group) {
  return scale(loss_sum, mean_scale(group, local_count));
}

}  // namespace lockstep
