#include "lockstep/distributed/comm/store_frame.h"

namespace lockstep::comm {
namespace {

constexpr size_t kPrefix = 4;             // the length
constexpr size_t kFixed = 1 + 8 + 4 + 4;  // of the rest: kind, number, the two lengths

uint64_t read_little(std::string_view bytes, size_t at, size_t width) {
  uint64_t value = 0;
  for (size_t i = 0; i < width; ++i) {
    value |= static_cast<uint64_t>(static_cast<unsigned char>(bytes[at + i])) << (8 * i);
  }
  return value;
}

void write_little(std::string& out, uint64_t value, size_t width) {
  for (size_t i = 0; i < width; ++i) out.push_back(static_cast<char>(value >> (8 * i) & 0xff));
}

bool known(uint64_t kind) {
  using Kind = StoreFrame::Kind;
  return (kind >= static_cast<uint64_t>(Kind::kHello) &&
          kind <= static_cast<uint64_t>(Kind::kDelete)) ||
         (kind >= static_cast<uint64_t>(Kind::kOk) &&
          kind <= static_cast<uint64_t>(Kind::kRefused));
}

StoreParse malformed(const char* error) {
  StoreParse result;
  result.status = StoreParse::Status::kMalformed;
  result.error = error;
  return result;
}

}  // namespace

StoreParse parse_store_frame(std::string_view bytes, const StoreFrameLimits& limits) {
  if (bytes.size() < kPrefix) return {};
  const uint64_t length = read_little(bytes, 0, 4);
  if (length < kFixed) return malformed("the frame is too short");
  if (length > kFixed + limits.max_key + limits.max_value) {
    return malformed("the frame is too long");
  }
  if (bytes.size() < kPrefix + kFixed) return {};
  const uint64_t kind = read_little(bytes, 4, 1);
  const uint64_t key = read_little(bytes, 13, 4);
  const uint64_t value = read_little(bytes, 17, 4);
  if (!known(kind)) return malformed("unknown kind of frame");
  if (key > limits.max_key) return malformed("the key is too long");
  if (value > limits.max_value) return malformed("the value is too long");
  if (kFixed + key + value != length) return malformed("the lengths do not add up");
  if (bytes.size() < kPrefix + length) return {};

  StoreParse result;
  result.status = StoreParse::Status::kFrame;
  result.consumed = kPrefix + length;
  result.frame.kind = static_cast<StoreFrame::Kind>(kind);
  result.frame.number = static_cast<int64_t>(read_little(bytes, 5, 8));
  result.frame.key = bytes.substr(kPrefix + kFixed, key);
  result.frame.value = bytes.substr(kPrefix + kFixed + key, value);
  return result;
}

std::string encode_store_frame(const StoreFrame& frame) {
  std::string out;
  out.reserve(kPrefix + kFixed + frame.key.size() + frame.value.size());
  write_little(out, kFixed + frame.key.size() + frame.value.size(), 4);
  write_little(out, static_cast<uint64_t>(frame.kind), 1);
  write_little(out, static_cast<uint64_t>(frame.number), 8);
  write_little(out, frame.key.size(), 4);
  write_little(out, frame.value.size(), 4);
  out += frame.key;
  out += frame.value;
  return out;
}

}  // namespace lockstep::comm
