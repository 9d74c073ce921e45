#include "lockstep/train/same_settings.h"

#include "lockstep/base/error.h"

#include <algorithm>
#include <cstring>

namespace lockstep {
namespace {

constexpr size_t kLongestSetting = 200;  // of what a message shows; longer ones are cut

std::string line_of(const std::pair<std::string, std::string>& setting) {
  return str("--", setting.first, " ", setting.second.empty() ? "(not given)" : setting.second);
}

uint64_t hash_of(const std::string& text) {  // FNV-1a
  uint64_t hash = 0xcbf29ce484222325;
  for (const unsigned char c : text) hash = (hash ^ c) * 0x100000001b3;
  return hash;
}

/// Rank `root`'s text, cut where it is long.
std::string broadcast_text(const std::string& mine, int root, ProcessGroup& group) {
  Tensor bytes = Tensor::zeros({static_cast<int64_t>(kLongestSetting)}, DType::kU8);
  std::memcpy(bytes.mutable_raw(), mine.data(), std::min(mine.size(), kLongestSetting));
  group.broadcast(bytes, root)->wait();
  const char* text = reinterpret_cast<const char*>(bytes.raw());
  return {text, strnlen(text, kLongestSetting)};
}

}  // namespace

void require_same_settings(const std::vector<std::pair<std::string, std::string>>& settings,
                           ProcessGroup& group) {
  const auto count = static_cast<int64_t>(settings.size());
  Tensor mine = Tensor::zeros({count}, DType::kI64);
  for (int64_t i = 0; i < count; ++i) {
    mine.mutable_data<int64_t>()[i] =
        static_cast<int64_t>(hash_of(line_of(settings[static_cast<size_t>(i)])));
  }
  Tensor all = Tensor::empty({group.size(), count}, DType::kI64);
  group.all_gather(all, mine)->wait();
  const int64_t* first = all.data<int64_t>();
  for (int rank = 1; rank < group.size(); ++rank) {
    const int64_t* theirs = first + rank * count;
    const int64_t i = std::mismatch(first, first + count, theirs).first - first;
    if (i == count) continue;
    const std::string line = line_of(settings[static_cast<size_t>(i)]);
    const std::string on_zero = broadcast_text(line, 0, group);
    const std::string on_rank = broadcast_text(line, rank, group);
    throw ArgumentError(str("ranks were started with different flags: ", on_zero, " on rank 0 and ",
                            on_rank, " on rank ", rank, "; give every rank the same"));
  }
}

}  // namespace lockstep
