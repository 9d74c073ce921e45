#include "lockstep/distributed/agreement.h"

#include "lockstep/distributed/comm/op_label.h"
#include "lockstep/distributed/comm/peer_lost.h"
#include "lockstep/distributed/comm/rank_texts.h"

#include <algorithm>
#include <exception>
#include <string>

namespace lockstep {
namespace {

/// One line a parameter: "conv1.weight f32 [64, 7, 7, 3]".
std::vector<std::string> describe(const std::vector<NamedParameter>& parameters) {
  std::vector<std::string> lines;
  for (const auto& [name, parameter] : parameters) {
    lines.push_back(str(name, " ", name_of(parameter.dtype()), " ", parameter.shape(),
                        parameter.requires_grad() ? "" : " frozen"));
  }
  return lines;
}

std::vector<std::string> describe(const std::vector<NamedBuffer>& buffers) {
  std::vector<std::string> lines;
  for (const auto& [name, buffer] : buffers) {
    lines.push_back(str(name, " ", name_of(buffer.dtype()), " ", buffer.shape()));
  }
  return lines;
}

/// Throws on every rank when a line differs; `what` it describes.
void require_same_lines(const char* what, const std::vector<std::string>& mine,
                        ProcessGroup& group) {
  const auto d = first_difference(mine, group);
  if (!d) return;
  throw ArgumentError(str("DataParallel: ranks hold different ", what, "s: ", what, " ", d->line,
                          " is ", d->on_zero, " on rank 0 (of ", d->lines_on_zero, ") and ",
                          d->here, " on rank ", d->rank, " (of ", d->lines, ")"));
}

}  // namespace

void leave_out(const std::vector<std::string>& ignore, std::vector<NamedParameter>& parameters,
               std::vector<NamedBuffer>& buffers, ProcessGroup& group) {
  std::vector<std::string> lines;
  std::string unknown;  // the first
  for (const std::string& name : ignore) {
    const auto named = [&](const auto& entry) { return entry.name == name; };
    const bool known = std::erase_if(parameters, named) + std::erase_if(buffers, named) > 0;
    lines.push_back(known ? name : str(name, " (which its module does not have)"));
    if (!known && unknown.empty()) unknown = name;
  }
  // Thrown here, it would leave the other ranks waiting.
  if (group.size() > 1) require_same_lines("ignored name", lines, group);
  check(unknown.empty(), "DataParallel: ignore: the module has no parameter or buffer ", unknown);
}

void require_same_parameters(const std::vector<NamedParameter>& parameters,
                             const std::vector<NamedBuffer>& buffers, ProcessGroup& group) {
  if (group.size() == 1) return;
  const OpLabel label("names and shapes of the parameters");
  require_same_lines("parameter", describe(parameters), group);
  require_same_lines("buffer", describe(buffers), group);
}

BucketPlan plan_of_rank_zero(ProcessGroup& group, std::span<const ParamSpec> params,
                             const std::function<BucketPlan()>& make) {
  if (group.size() == 1) return make();
  const OpLabel label("bucket plan");
  // Whether there is a plan; then each parameter in launch order, and its bucket.
  const auto n = static_cast<int64_t>(params.size());
  Tensor message = Tensor::zeros({1 + 2 * n}, DType::kI32);
  int32_t* const words = message.mutable_data<int32_t>();
  std::exception_ptr failure;
  if (group.rank() == 0) {
    try {
      const BucketPlan plan = make();
      check_plan(plan, params);
      words[0] = 1;
      int32_t* next = words + 1;
      for (size_t b = 0; b < plan.buckets.size(); ++b) {
        for (int i : plan.buckets[b].params) {
          *next++ = i;
          *next++ = static_cast<int32_t>(b);
        }
      }
    } catch (...) {
      failure = std::current_exception();
    }
  }
  group.broadcast(message, 0)->wait();
  if (failure) std::rethrow_exception(failure);
  if (words[0] != 1) {
    throw CommError(str("DataParallel: ", comm::kPeerLost,
                        ": rank 0 could not plan the buckets; its message says why"));
  }
  BucketPlan plan;
  for (int64_t k = 0; k < n; ++k) {
    const ParamSpec& param = params[static_cast<size_t>(words[1 + 2 * k])];
    plan.buckets.resize(static_cast<size_t>(words[2 + 2 * k]) + 1);
    Bucket& bucket = plan.buckets.back();
    bucket.dtype = param.dtype;
    bucket.params.push_back(words[1 + 2 * k]);
    bucket.bytes += param.bytes();
  }
  return plan;
}

}  // namespace lockstep
