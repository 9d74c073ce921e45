#include "lockstep/distributed/reduce/reducer.h"

#include "lockstep/autograd/record.h"
#include "lockstep/base/error.h"
#include "lockstep/base/timeline.h"
#include "lockstep/tensor/ops/copy.h"

#include <utility>

namespace lockstep {
namespace {

std::vector<ParamSpec> specs_of(const std::vector<Reducer::Parameter>& parameters) {
  std::vector<ParamSpec> specs;
  for (const auto& [name, variable] : parameters) {
    specs.push_back({name, variable.shape(), variable.dtype()});
  }
  return specs;
}

}  // namespace

Reducer::Reducer(std::vector<Parameter> parameters, BucketPlan plan, ProcessGroup& group,
                 DdpMode mode, Timeline* timeline)
    : parameters_(std::move(parameters)),
      plan_(std::move(plan)),
      bucket_of_(parameters_.size(), -1),
      group_(group),
      mode_(mode),
      timeline_(timeline),
      buckets_(plan_.buckets.size()),
      arrived_(parameters_.size()) {
  check(!parameters_.empty(), "reducer: no parameter requires a gradient");
  for (size_t b = 0; b < plan_.buckets.size(); ++b) {
    for (int i : plan_.buckets[b].params) {
      check(i >= 0 && static_cast<size_t>(i) < parameters_.size(),
            "reducer: the bucket plan holds parameter ", i, ", but there are ", parameters_.size());
      int& owner = bucket_of_[static_cast<size_t>(i)];
      check(owner < 0, "reducer: the bucket plan holds ", parameters_[static_cast<size_t>(i)].name,
            " twice");
      owner = static_cast<int>(b);
    }
  }
  gradients_ = FlatArena(specs_of(parameters_), plan_, parameters_[0].variable.device());
  for (size_t i = 0; i < parameters_.size(); ++i) {
    check(bucket_of_[i] >= 0, "reducer: the bucket plan lacks ", parameters_[i].name);
    Variable& parameter = parameters_[i].variable;
    parameter.bind_grad(gradients_.param(static_cast<int>(i)));
    hooks_.push_back(
        parameter.on_grad_ready([this, i](const Variable&) { on_ready(static_cast<int>(i)); }));
  }
}

Reducer::~Reducer() {
  abandon();
  hooks_.clear();
  for (Parameter& parameter : parameters_) parameter.variable.bind_grad(Tensor());
}

void Reducer::on_ready(int param) {
  if (!in_backward_) begin();
  if (!reducing_) return;
  arrived_[static_cast<size_t>(param)] = true;
  const int bucket = bucket_of_[static_cast<size_t>(param)];
  if (--buckets_[static_cast<size_t>(bucket)].missing == 0 && mode_ == DdpMode::kOverlapped) {
    mark_ready(bucket);
  }
}

void Reducer::begin() {
  in_backward_ = true;
  at_end_of_backward([this](bool completed) {
    in_backward_ = false;
    if (!completed) return abandon();
    if (!reducing_) return;
    try {
      finish();
    } catch (...) {
      abandon();  // the next backward must not write into memory that is still being reduced
      throw;
    }
  });
  reducing_ = synchronize_ && mode_ != DdpMode::kLocal;
  if (!reducing_) return;
  next_to_launch_ = 0;
  arrived_.assign(arrived_.size(), false);
  for (size_t b = 0; b < buckets_.size(); ++b) {
    buckets_[b].missing = static_cast<int>(plan_.buckets[b].params.size());
  }
}

void Reducer::mark_ready(int bucket) {
  if (bucket != next_to_launch_)
    return;  // an earlier one is not ready yet; it will launch this one too
  while (next_to_launch_ < static_cast<int>(buckets_.size()) &&
         buckets_[static_cast<size_t>(next_to_launch_)].missing == 0) {
    launch(next_to_launch_++);
  }
}

void Reducer::launch(int bucket) {
  Tensor memory = gradients_.bucket(bucket);
  // Scaled before the sum, once: partial sums then stay within the range of a gradient, and NCCL's
  // own average would lose the in-network reduction that its sum has.
  if (group_.size() > 1) ops::scale(memory, 1.0 / group_.size());
  buckets_[static_cast<size_t>(bucket)].work = group_.all_reduce(memory, ReduceOp::kSum);
}

void Reducer::finish() {
  require_all_ready();
  if (mode_ == DdpMode::kNaive) return reduce_each_gradient();
  if (mode_ == DdpMode::kBucketed) {
    for (int b = 0; b < static_cast<int>(buckets_.size()); ++b) launch(b);
  }
  wait_for_all();
}

void Reducer::wait_for_all() {
  const int64_t begin = Timeline::now_ns();
  bool waited = false;
  for (size_t b = 0; b < buckets_.size(); ++b) {
    const WorkPtr work = std::exchange(buckets_[b].work, nullptr);
    if (work == nullptr) continue;
    work->wait();
    waited = true;
    record_transfer(*work, static_cast<int>(b), plan_.buckets[b].bytes);
  }
  if (waited) record_wait(begin);
}

void Reducer::abandon() {
  for (BucketState& bucket : buckets_) {
    try {
      if (const WorkPtr work = std::exchange(bucket.work, nullptr)) work->wait();
    } catch (const std::exception&) {
      // All that matters here is that nothing uses the memory any more.
    }
  }
}

void Reducer::record_transfer(const Work& work, int bucket, int64_t bytes) {
  // On a stream the wait returns before the transfer is over, and its times are not known yet.
  if (timeline_ == nullptr || !work.done()) return;
  const auto [start, finish] = work.times();
  timeline_->record({Activity::kCommunication, bucket, start, finish, bytes});
}

void Reducer::record_wait(int64_t begin) {
  if (timeline_ == nullptr) return;
  timeline_->record({Activity::kCommWait, -1, begin, Timeline::now_ns(), 0});
}

void Reducer::reduce_each_gradient() {
  const int64_t begin = Timeline::now_ns();
  for (size_t b = 0; b < plan_.buckets.size(); ++b) {
    for (int i : plan_.buckets[b].params) {
      Tensor gradient = gradients_.param(i);
      if (group_.size() > 1) ops::scale(gradient, 1.0 / group_.size());
      const WorkPtr work = group_.all_reduce(gradient, ReduceOp::kSum);
      work->wait();
      record_transfer(*work, static_cast<int>(b), static_cast<int64_t>(gradient.nbytes()));
    }
  }
  record_wait(begin);
}

void Reducer::require_all_ready() {
  std::string unready;
  int count = 0;
  for (size_t i = 0; i < arrived_.size(); ++i) {
    if (arrived_[i]) continue;
    if (++count <= 3) unready += (count > 1 ? ", " : "") + parameters_[i].name;
  }
  if (count == 0) return;
  if (count > 3) unready += str(" and ", count - 3, " more");
  const std::string message = str(
      "reducer: rank ", group_.rank(), ": backward brought no gradient for ", unready,
      "; every parameter must take part in the loss of every synchronised backward (freeze it with "
      "set_requires_grad(false), or leave it out of the module)");
  // The other ranks wait for buckets that will not come.
  group_.abort(message);
  throw ArgumentError(message);
}

DdpMode parse_ddp_mode(const std::string& name) {
  for (DdpMode mode :
       {DdpMode::kLocal, DdpMode::kNaive, DdpMode::kBucketed, DdpMode::kOverlapped}) {
    if (name == name_of(mode)) return mode;
  }
  throw ArgumentError(str("ddp mode: wanted local, naive, bucketed or overlapped, got ", name));
}

const char* name_of(DdpMode mode) {
  switch (mode) {
    case DdpMode::kLocal:
      return "local";
    case DdpMode::kNaive:
      return "naive";
    case DdpMode::kBucketed:
      return "bucketed";
    case DdpMode::kOverlapped:
      return "overlapped";
  }
  return "?";
}

}  // namespace lockstep
