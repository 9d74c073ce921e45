// The wire format of the TCP store, as pure functions: no socket, no clock, nothing but bytes. What
// comes from the network passes through parse_store_frame() before anything else sees it.
//
// A frame, little-endian: u32 length of the rest | u8 kind | i64 number | u32 key length | u32
// value length | key | value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep::comm {

struct StoreFrame {
  enum class Kind : uint8_t {
    // Requests. The first frame of a connection is kHello with the job's token as its value
    // and the rank, or -1, as its number.
    kHello = 1,
    kSet,     // key, value
    kGet,     // key, number: milliseconds to wait for it
    kAdd,     // key, number: to add to the counter
    kDelete,  // key
    // Replies.
    kOk = 16,  // value (kGet), number (kAdd: the new count; kDelete: how many were there)
    kTimeout,  // kGet: not set in time
    kRefused,  // value: why; the connection is closed
  };
  Kind kind = Kind::kOk;
  int64_t number = 0;
  std::string key = {};
  std::string value = {};

  bool operator==(const StoreFrame&) const = default;
};

/// Longer frames are malformed, before their bytes are awaited or memory is reserved for them.
struct StoreFrameLimits {
  size_t max_key = 1024;
  size_t max_value = size_t{1} << 20;
};

struct StoreParse {
  enum class Status { kNeedMore, kFrame, kMalformed };
  Status status = Status::kNeedMore;
  size_t consumed = 0;          // bytes of the frame, for kFrame
  StoreFrame frame;             // for kFrame
  const char* error = nullptr;  // for kMalformed
};

/// Reads the frame at the beginning of `bytes`. Never throws for bad bytes; allocates only what a
/// complete frame holds.
StoreParse parse_store_frame(std::string_view bytes, const StoreFrameLimits& limits);

/// The bytes of a frame. The caller has checked the sizes.
std::string encode_store_frame(const StoreFrame& frame);

}  // namespace lockstep::comm
