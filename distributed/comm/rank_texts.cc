#include "lockstep/distributed/comm/rank_texts.h"

#include <algorithm>
#include <cstring>

namespace lockstep {
namespace {

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

}  // namespace

std::vector<std::string> gather_texts(const std::string& mine, ProcessGroup& group) {
  const auto size = static_cast<int64_t>(group.size());
  Tensor lengths = Tensor::empty({size}, DType::kI64);
  const auto length = static_cast<int64_t>(mine.size());
  group.all_gather(lengths, Tensor::from<int64_t>({length}, {1}))->wait();
  const int64_t* begin = lengths.data<int64_t>();
  const int64_t longest = *std::max_element(begin, begin + size);

  Tensor padded = Tensor::zeros({longest}, DType::kU8);
  std::memcpy(padded.mutable_raw(), mine.data(), mine.size());
  Tensor all = Tensor::empty({size, longest}, DType::kU8);
  group.all_gather(all, padded)->wait();
  std::vector<std::string> texts;
  for (int64_t rank = 0; rank < size; ++rank) {
    const auto* text = reinterpret_cast<const char*>(all.raw()) + rank * longest;
    texts.emplace_back(text, static_cast<size_t>(begin[rank]));
  }
  return texts;
}

std::optional<LineDifference> first_difference(const std::vector<std::string>& lines,
                                               ProcessGroup& group) {
  std::string joined;
  for (const std::string& line : lines) joined += line + "\n";
  const std::vector<std::string> texts = gather_texts(joined, group);
  const auto other = std::find_if(texts.begin(), texts.end(),
                                  [&](const std::string& text) { return text != texts[0]; });
  if (other == texts.end()) return std::nullopt;
  const std::vector<std::string> zero = split_lines(texts[0]), theirs = split_lines(*other);
  const auto at = [](const std::vector<std::string>& all, size_t i) {
    return i < all.size() ? all[i] : "nothing";
  };
  size_t i = 0;
  while (at(zero, i) == at(theirs, i)) ++i;
  return LineDifference{static_cast<int>(other - texts.begin()),
                        i,
                        at(theirs, i),
                        at(zero, i),
                        theirs.size(),
                        zero.size()};
}

}  // namespace lockstep
