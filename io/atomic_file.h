// Files that are there whole or not at all, whatever kills the process or the machine in between.
#pragma once

#include <cstddef>
#include <string>

namespace lockstep {

/// Writes <path>.tmp beside the target; commit() makes it durable (fsync), renames it over the
/// target and makes the rename durable. Until then the file that was at `path` is untouched;
/// without commit() the temporary is removed.
///
/// A temporary that a killed process left behind is reused by the next writer. A second writer at
/// the same time, in this or another process, is refused. A symbolic link at `path` is replaced,
/// not followed; what is there and no regular file (a folder, /dev/null, /dev/stdout) is refused.
/// Not safe for concurrent use.
///
/// Failpoints: atomic_file.after_write (each write), .before_fsync, .before_rename, .after_rename.
class AtomicFile {
 public:
  /// Throws IoError when the temporary cannot be made: no such directory, no permission, another
  /// writer; and when `path` is a folder or a device.
  explicit AtomicFile(std::string path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Appends. Throws IoError, among others when the disk is full.
  void write(const void* data, size_t bytes);
  void commit();

 private:
  [[noreturn]] void fail(const std::string& what, int error) const;
  void discard() noexcept;

  std::string path_;
  std::string temporary_;
  int fd_ = -1;
  size_t written_ = 0;
};

/// The whole of `contents` through an AtomicFile.
void write_file_atomically(const std::string& path, const std::string& contents);

}  // namespace lockstep
