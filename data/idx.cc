#include "lockstep/data/idx.h"

#include "lockstep/base/error.h"
#include "lockstep/io/file.h"
#include "lockstep/io/gzip.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <utility>

namespace lockstep {
namespace {

constexpr uint64_t kMaxFileBytes = uint64_t{1} << 32;
constexpr size_t kMaxDims = 4;

// The bytes of the array, decompressed when they are compressed.
class IdxStream {
 public:
  IdxStream(std::span<const uint8_t> bytes, const std::string& name) : rest_(bytes), name_(name) {
    if (is_gzip(bytes)) gzip_.emplace(bytes, name);
  }

  void read(uint8_t* to, size_t count) {
    size_t got = 0;
    if (gzip_) {
      got = gzip_->read(to, count);
    } else {
      got = std::min(count, rest_.size());
      std::copy_n(rest_.begin(), got, to);
      rest_ = rest_.subspan(got);
    }
    if (got < count) {
      throw IoError(
          str("read_idx: ", name_, ": cut short: wanted ", count, " more bytes, got ", got));
    }
  }

  // Refuses an announced size that the file cannot hold.
  void expect_room(uint64_t announced, uint64_t max_bytes) const {
    const uint64_t held = gzip_ ? rest_.size() * kMaxGzipRatio : rest_.size();
    if (announced > std::min(held, max_bytes) || (!gzip_ && announced != held)) {
      throw IoError(str("read_idx: ", name_, ": the header announces ", announced,
                        " bytes; wanted ", gzip_ ? "at most " : "", std::min(held, max_bytes),
                        " in a file of this size"));
    }
  }

  void expect_end() {
    if (gzip_) gzip_->expect_end();
  }

 private:
  std::span<const uint8_t> rest_;
  const std::string& name_;
  std::optional<GzipReader> gzip_;
};

}  // namespace

IdxArray parse_idx(std::span<const uint8_t> bytes, const std::string& name, uint64_t max_bytes) {
  IdxStream stream(bytes, name);
  std::array<uint8_t, 4> magic;
  stream.read(magic.data(), magic.size());
  if (magic[0] != 0 || magic[1] != 0 || magic[2] != 8 || magic[3] < 1 || magic[3] > kMaxDims) {
    throw IoError(str("read_idx: ", name, ": wanted an IDX file of unsigned bytes with 1 to ",
                      kMaxDims, " dimensions, got the first bytes ", int{magic[0]}, ' ',
                      int{magic[1]}, ' ', int{magic[2]}, ' ', int{magic[3]}));
  }
  IdxArray array;
  uint64_t total = 1;
  for (int i = 0; i < magic[3]; ++i) {
    std::array<uint8_t, 4> word;
    stream.read(word.data(), word.size());
    const uint32_t extent = uint32_t{word[0]} << 24 | uint32_t{word[1]} << 16 |
                            uint32_t{word[2]} << 8 | uint32_t{word[3]};
    array.dims.push_back(extent);
    if (__builtin_mul_overflow(total, uint64_t{extent}, &total)) {
      throw IoError(str("read_idx: ", name, ": the header announces more than 2^64 bytes"));
    }
  }
  stream.expect_room(total, max_bytes);
  array.values.resize(total);
  stream.read(array.values.data(), array.values.size());
  stream.expect_end();
  return array;
}

IdxArray read_idx(const std::string& path) {
  std::error_code ignored;
  const bool plain = std::filesystem::exists(path, ignored);
  if (!plain && !std::filesystem::exists(path + ".gz", ignored)) {
    throw IoError(str("read_idx: found neither ", path, " nor ", path, ".gz"));
  }
  const std::string name = plain ? path : path + ".gz";
  return parse_idx(read_file(name, kMaxFileBytes), name);
}

}  // namespace lockstep
