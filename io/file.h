// Reading files whose size is known before anything is allocated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

/// A regular file, open for reading. Errors are IoErrors that name the file.
class InputFile {
 public:
  /// Throws IoError when it is missing, unreadable or not a regular file.
  explicit InputFile(std::string path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path() const { return path_; }
  /// Bytes, when it was opened.
  uint64_t size() const { return size_; }
  /// Exactly `bytes` bytes from `offset` on; throws IoError when the file ends before. Safe from
  /// any thread.
  void read(uint64_t offset, void* to, size_t bytes) const;

 private:
  std::string path_;
  int fd_ = -1;
  uint64_t size_ = 0;
};

/// The whole file; IoError when it is larger than `max_bytes`.
std::vector<uint8_t> read_file(const std::string& path, uint64_t max_bytes);

}  // namespace lockstep
