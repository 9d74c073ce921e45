// Decompression of a gzip file that lies in memory, as much of it as the caller asks for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace lockstep {

/// Whether `bytes` begin as a gzip file does.
bool is_gzip(std::span<const uint8_t> bytes);

/// Deflate packs at most this many bytes into one, so a file of n bytes holds fewer than n times as
/// many.
inline constexpr uint64_t kMaxGzipRatio = 1032;

/// Reads the one member of a gzip file. Not safe for concurrent use.
class GzipReader {
 public:
  /// `bytes` must outlive the reader; `name` is the file's, for messages.
  GzipReader(std::span<const uint8_t> bytes, std::string name);
  ~GzipReader();

  /// Up to `count` bytes; fewer only at the end. IoError when the data is damaged or cut short.
  size_t read(uint8_t* to, size_t count);
  /// Throws IoError unless everything was read and nothing follows.
  void expect_end();

 private:
  struct State;
  std::unique_ptr<State> state_;
  std::string name_;
};

}  // namespace lockstep
