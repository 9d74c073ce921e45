#include "lockstep/distributed/parameter_agreement.h"

#include "lockstep/tensor/ops/copy.h"

#include <algorithm>
#include <cstring>
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

}  // namespace

void require_same_parameters(const std::vector<NamedParameter>& parameters, ProcessGroup& group) {
  if (group.size() == 1) return;
  const Device device = parameters.empty() ? Device::cpu() : parameters[0].parameter.device();
  const std::vector<std::string> texts = gather(joined(describe(parameters)), group, device);
  for (size_t rank = 1; rank < texts.size(); ++rank) {
    if (texts[rank] == texts[0]) continue;
    const auto first = split_lines(texts[0]);
    const auto other = split_lines(texts[rank]);
    for (size_t i = 0; i < std::max(first.size(), other.size()); ++i) {
      const std::string a = i < first.size() ? first[i] : "nothing";
      const std::string b = i < other.size() ? other[i] : "nothing";
      check(a == b, "DataParallel: ranks hold different parameters: parameter ", i, " is ", a,
            " on rank 0 (of ", first.size(), ") and ", b, " on rank ", rank, " (of ", other.size(),
            ")");
    }
  }
}

}  // namespace lockstep
