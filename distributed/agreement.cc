#include "lockstep/distributed/agreement.h"

#include "lockstep/distributed/comm/peer_lost.h"
#include "lockstep/tensor/ops/copy.h"

#include <algorithm>
#include <cstring>
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

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

/// Every rank's text, on every rank.
std::vector<std::string> gather(const std::string& text, ProcessGroup& group, Device device) {
  const auto on_device = [&](const Tensor& t) { return ops::to_device(t, device); };
  const auto size = static_cast<int64_t>(group.size());
  Tensor lengths = on_device(Tensor::zeros({size}, DType::kI64));
  group
      .all_gather(lengths,
                  on_device(Tensor::from<int64_t>({static_cast<int64_t>(text.size())}, {1})))
      ->wait();
  const auto length = ops::to_device(lengths, Device::cpu()).to_vector<int64_t>();
  const int64_t longest = *std::max_element(length.begin(), length.end());

  Tensor mine = Tensor::zeros({longest}, DType::kU8);
  std::memcpy(mine.mutable_raw(), text.data(), text.size());
  Tensor all = on_device(Tensor::zeros({size * longest}, DType::kU8));
  group.all_gather(all, on_device(mine))->wait();
  const auto bytes = ops::to_device(all, Device::cpu()).to_vector<uint8_t>();
  std::vector<std::string> texts;
  for (int64_t rank = 0; rank < size; ++rank) {
    const auto begin = bytes.begin() + rank * longest;
    texts.emplace_back(begin, begin + length[static_cast<size_t>(rank)]);
  }
  return texts;
}

/// Throws on every rank when a line differs; `what` it describes.
void require_same_lines(const char* what, const std::vector<std::string>& mine, ProcessGroup& group,
                        Device device) {
  const std::vector<std::string> texts = gather(joined(mine), group, device);
  for (size_t rank = 1; rank < texts.size(); ++rank) {
    if (texts[rank] == texts[0]) continue;
    const auto first = split_lines(texts[0]);
    const auto other = split_lines(texts[rank]);
    for (size_t i = 0; i < std::max(first.size(), other.size()); ++i) {
      const std::string a = i < first.size() ? first[i] : "nothing";
      const std::string b = i < other.size() ? other[i] : "nothing";
      check(a == b, "DataParallel: ranks hold different ", what, "s: ", what, " ", i, " is ", a,
            " on rank 0 (of ", first.size(), ") and ", b, " on rank ", rank, " (of ", other.size(),
            ")");
    }
  }
}

}  // namespace

void require_same_parameters(const std::vector<NamedParameter>& parameters,
                             const std::vector<NamedBuffer>& buffers, ProcessGroup& group) {
  if (group.size() == 1) return;
  const Device device = parameters.empty() ? Device::cpu() : parameters[0].parameter.device();
  require_same_lines("parameter", describe(parameters), group, device);
  require_same_lines("buffer", describe(buffers), group, device);
}

BucketPlan plan_of_rank_zero(ProcessGroup& group, std::span<const ParamSpec> params,
                             const std::function<BucketPlan()>& make) {
  if (group.size() == 1) return make();
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
