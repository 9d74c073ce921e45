// A file as memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace lockstep {

/// A regular file, mapped for reading: its pages are read when touched and are the page cache's, so
/// that the processes of a machine share them. Do not shorten the file while it is mapped: reading
/// what is gone ends the process (SIGBUS).
class MappedFile {
 public:
  /// Throws IoError when it is missing, unreadable, not a regular file, or cannot be mapped.
  explicit MappedFile(std::string path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  std::span<const uint8_t> bytes() const { return {data_, size_}; }

 private:
  std::string path_;
  const uint8_t* data_ = nullptr;  // null for an empty file
  size_t size_ = 0;
};

}  // namespace lockstep
