#include "lockstep/train/verify/verify_rank.h"

#include "lockstep/base/error.h"
#include "lockstep/distributed/comm/rank_texts.h"
#include "lockstep/nn/batch_norm.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tensor/random.h"
#include "lockstep/train/verify/difference.h"
#include "lockstep/train/verify/format.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <thread>
#include <utility>

namespace lockstep {
namespace {

constexpr size_t kFinite = 0, kReplicas = 1;  // checks that are always there
constexpr double kBuckets = 8;                // of a model, about

bool has_batch_norm(Module& module) {
  bool found = false;
  module.for_each_module(
      [&](Module& part) { found = found || dynamic_cast<BatchNorm2d*>(&part) != nullptr; });
  return found;
}

template <class T>
bool all_finite(const Tensor& tensor) {
  const T* const values = tensor.data<T>();
  return std::all_of(values, values + tensor.numel(), [](T x) { return std::isfinite(x); });
}

/// `inner`, after a look at what this rank brings.
BucketReduction watched(BucketReduction inner, ProcessGroup& group,
                        std::shared_ptr<std::string> not_finite) {
  if (inner == nullptr) {
    inner = [&group](const GradBucket& bucket) { return group.all_reduce(bucket.flat); };
  }
  return [inner = std::move(inner), not_finite = std::move(not_finite)](const GradBucket& bucket) {
    for (const GradBucket::Param& param : bucket.params) {
      const bool f64 = param.grad.dtype() == DType::kF64;
      if (f64 ? all_finite<double>(param.grad) : all_finite<float>(param.grad)) continue;
      if (not_finite->empty()) *not_finite = param.name;
    }
    return inner(bucket);
  };
}

void choose_caps(DdpOptions& ddp, const Module& module) {
  int64_t bytes = 0;
  for (const NamedParameter& p : module.named_parameters()) {
    bytes += static_cast<int64_t>(p.parameter.data().nbytes());
  }
  ddp.bucket_cap_mb = static_cast<double>(bytes) / (1 << 20) / kBuckets;
  ddp.first_bucket_cap_mb = ddp.bucket_cap_mb / 2;
  ddp.last_bucket_cap_mb.reset();
  ddp.bucket_caps_mb.clear();
}

/// Bits may depend on where in a bucket an element lies.
bool sums_in_rank_order(const ProcessGroup& group, const VerifyOptions& options) {
  return options.group.canonical || group.size() <= 2 ||
         std::string_view(group.backend()).ends_with("threads");
}

VerifyModel model_in_f64(const VerifyModel& model) {
  return [model] {
    LossModel made = model();
    made.module->to(DType::kF64);
    return made;
  };
}

VerifyBatch in_f64(const VerifyBatch& batch) {
  return [batch](int64_t step, int64_t micro, int rank) {
    Batch made = batch(step, micro, rank);
    if (made.inputs.dtype() == DType::kF32) made.inputs = ops::cast(made.inputs, DType::kF64);
    return made;
  };
}

}  // namespace

VerifyRank::VerifyRank(ProcessGroup& group, const VerifyModel& model, const VerifyBatch& batch,
                       const VerifyOptions& options, VerifyReport& report)
    : group_(group),
      options_(options),
      exact_(sums_in_rank_order(group, options)),
      source_(options.f64 || !(exact_ || options.lossy) ? Source{model_in_f64(model), in_f64(batch)}
                                                        : Source{model, batch}),
      in_f64_{model_in_f64(model), in_f64(batch)},
      report_(report) {}

void VerifyRank::run() {
  try {
    build();
    if (!replicas_are_equal(0)) return;
    for (int64_t step = 0; step < options_.steps; ++step) {
      train(step);
      where_ = str("step ", step + 1);
      if (!gradients_are_finite(step) || !replicas_are_equal(step + 1) || !models_are_equal(step)) {
        return;
      }
      if (options_.progress && group_.rank() == 0) options_.progress(step + 1);
    }
    pass();
  } catch (const std::exception& error) {
    const std::string what = str(where_, ": ", error.what());
    group_.abort(what);
    throw Error(what);
  }
}

void VerifyRank::build() {
  for (const DdpMode mode : options_.modes) {
    add_candidate(mode, name_of(mode), source_, options_.sync_batch_norm);
  }
  report_.checks = {{.what = "gradients finite on every rank"}, {.what = "replicas bitwise equal"}};
  const bool whole = options_.whole_batch_steps > 0 && !options_.lossy;
  if (whole) {
    const bool norm = has_batch_norm(candidates_[0].replica->module());
    const DdpMode mode = options_.modes.back();
    add_candidate(mode, str(name_of(mode), " in f64", norm ? " with SyncBN" : ""), in_f64_, norm);
  }
  if (group_.rank() != 0) return;
  const auto reference = [&](auto& place, const Source& source, ShareOrder order) {
    using Reference = typename std::remove_reference_t<decltype(place)>::element_type;
    place = std::make_unique<Reference>(source.model, source.batch, options_, group_.size(), order);
  };
  if (!options_.lossy && !options_.sync_batch_norm) {
    reference(in_turn_, source_, ShareOrder::kRanks);
    if (!exact_) reference(in_turn_reversed_, source_, ShareOrder::kReversed);
  }
  if (whole) {
    reference(whole_, in_f64_, ShareOrder::kRanks);
    reference(whole_reversed_, in_f64_, ShareOrder::kReversed);
  }
  add_comparisons();
}

void VerifyRank::add_candidate(DdpMode mode, std::string name, const Source& source, bool synced) {
  where_ = "building " + name;
  Candidate c{.name = std::move(name), .source = source};
  LossModel model = source.model();
  DdpOptions ddp = options_.ddp;
  if (options_.several_buckets) choose_caps(ddp, *model.module);
  ddp.mode = mode;
  ddp.reduction =
      watched(options_.reduction ? options_.reduction(group_) : nullptr, group_, c.not_finite);
  c.replica = std::make_unique<Replica>(std::move(model), group_,
                                        ReplicaOptions{.ddp = std::move(ddp),
                                                       .micro_batches = options_.micro_batches,
                                                       .clip_grad_norm = options_.clip_grad_norm,
                                                       .optimizer = options_.optimizer,
                                                       .faults = options_.faults,
                                                       .sync_batch_norm = synced});
  if (options_.wrapped) options_.wrapped(mode, c.replica->ddp());
  const int64_t most = options_.delays.count();
  if (most > 0) {
    const auto dice = std::make_shared<Generator>(static_cast<uint64_t>(group_.rank()) + 1);
    for (NamedParameter named : c.replica->parameters()) {
      c.delays.push_back(named.parameter.on_grad_ready([dice, most](const Variable&) {
        std::this_thread::sleep_for(std::chrono::microseconds(dice->take(1).bits(0) % most));
      }));
    }
  }
  candidates_.push_back(std::move(c));
}

void VerifyRank::add_comparisons() {
  const int64_t all = options_.steps;
  const double* const noise = exact_     ? nullptr
                              : in_turn_ ? &in_turn_noise_
                              : whole_   ? &whole_noise_
                                         : nullptr;
  const Candidate& first = candidates_[0];
  for (size_t i = 1; i < options_.modes.size(); ++i) {
    const Candidate& other = candidates_[i];
    compare(str(other.name, " = ", first.name), str(other.name, " is not ", first.name), other,
            first.replica->parameters(), noise, all);
  }
  const std::string many = str(group_.size(), " ranks");
  if (options_.lossy) {
    return skip(many + " = one process", "the hook does not give the mean of the gradients");
  }
  const std::string not_one = many + " are not one process";
  if (in_turn_) {
    compare(many + " = one process, shares in turn", not_one,
            candidates_[options_.modes.size() - 1], in_turn_->parameters(), noise, all);
  }
  if (whole_) {
    const Candidate& one = candidates_.back();
    const bool norm = has_batch_norm(one.replica->module());
    compare(str("f64", norm ? ", SyncBN" : "", ": ", many, " = one process, whole batch"),
            str(not_one, " with the whole batch", norm ? ", SyncBN" : ""), one,
            whole_->parameters(), &whole_noise_, std::min(all, options_.whole_batch_steps));
  }
}

void VerifyRank::compare(std::string what, std::string failure, const Candidate& got,
                         const std::vector<NamedParameter>& wanted, const double* noise,
                         int64_t steps) {
  comparisons_.push_back({report_.checks.size(), &got.replica->parameters(), &wanted, noise, steps,
                          std::move(failure)});
  report_.checks.push_back({.what = std::move(what)});
}

void VerifyRank::skip(std::string what, std::string why) {
  report_.checks.push_back({.what = std::move(what), .skipped = std::move(why)});
}

void VerifyRank::train(int64_t step) {
  for (size_t i = 0; i < candidates_.size(); ++i) {
    if (i >= options_.modes.size() && step >= options_.whole_batch_steps) break;
    Candidate& c = candidates_[i];
    where_ = str("step ", step + 1, ", ", c.name);
    c.replica->step(
        [&](int64_t micro) { return c.source.batch(step, micro, c.replica->data_rank()); });
  }
}

bool VerifyRank::gradients_are_finite(int64_t step) {
  for (const Candidate& c : candidates_) {
    const std::vector<std::string> found = gather_texts(*c.not_finite, group_);
    const auto bad = std::find_if(found.begin(), found.end(),
                                  [](const std::string& name) { return !name.empty(); });
    if (bad == found.end()) continue;
    return fail(str("a gradient is not finite before the sum: ", *bad, ", step ", step + 1,
                    ", rank ", bad - found.begin(), " (", c.name, ")"));
  }
  report_.checks[kFinite].steps = step + 1;
  return true;
}

bool VerifyRank::replicas_are_equal(int64_t steps) {
  for (const Candidate& c : candidates_) {
    std::vector<NamedTensor> values = values_of(c.replica->parameters());
    if (options_.ddp.broadcast_buffers) {
      for (const NamedBuffer& named : c.replica->module().named_buffers()) {
        values.push_back({named.name, named.buffer});
      }
    }
    const auto difference = first_replica_difference(values, group_);
    if (!difference) continue;
    return fail(str("replicas differ: ", difference->tensor, ", step ", steps, ", rank ",
                    difference->rank, " (", c.name, ")"));
  }
  report_.checks[kReplicas].steps = steps;
  return true;
}

bool VerifyRank::models_are_equal(int64_t step) {
  std::string failure;
  if (group_.rank() == 0) {
    where_ = str("step ", step + 1, ", one process");
    for (OneProcess* one :
         std::initializer_list<OneProcess*>{in_turn_.get(), in_turn_reversed_.get()}) {
      if (one != nullptr) one->step(step);
    }
    if (step < options_.whole_batch_steps && whole_) {
      whole_->step(step);
      whole_reversed_->step(step);
    }
    const auto measure = [](double& noise, const OneProcess* a, const OneProcess* b) {
      if (a == nullptr || b == nullptr) return;
      noise = std::max(noise, difference(a->parameters(), b->parameters()).largest);
    };
    measure(in_turn_noise_, in_turn_.get(), in_turn_reversed_.get());
    measure(whole_noise_, whole_.get(), whole_reversed_.get());
    for (const Comparison& c : comparisons_) {
      if (step >= c.steps) continue;
      const bool f64 = (*c.wanted)[0].parameter.dtype() == DType::kF64;
      const double epsilon =
          f64 ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
      const double allowed = c.noise == nullptr ? 0 : kVerifyMargin * std::max(*c.noise, epsilon);
      const Difference d = difference(*c.got, *c.wanted, allowed);
      VerifyCheck& check = report_.checks[c.check];
      if (!(d.largest < check.difference)) {
        check.difference = d.largest;
        check.where = d.where;
      }
      check.allowed = allowed;
      if (!d.first.empty()) {
        failure =
            str(c.words, ": ", d.first, ", step ", step + 1, ", every rank; up to ",
                short_number(d.largest), " apart (", d.where, "), allowed ", short_number(allowed));
        break;
      }
      check.steps = step + 1;
    }
  }
  const std::vector<std::string> said = gather_texts(failure, group_);
  return said[0].empty() || fail(said[0]);
}

bool VerifyRank::fail(std::string verdict) {
  report_.verdict = "FAIL " + std::move(verdict);
  return false;
}

void VerifyRank::pass() {
  const auto largest = std::max_element(
      report_.checks.begin(), report_.checks.end(),
      [](const VerifyCheck& a, const VerifyCheck& b) { return a.difference < b.difference; });
  report_.passed = true;
  report_.verdict = largest->difference == 0
                        ? "PASS largest difference 0 (every bit is the same)"
                        : str("PASS largest difference ", short_number(largest->difference), " (",
                              largest->where, ")");
}

}  // namespace lockstep
