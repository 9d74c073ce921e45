#include "lockstep/io/file.h"

#include "lockstep/base/error.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>
#include <cstring>
#include <utility>

namespace lockstep {

InputFile::InputFile(std::string path) : path_(std::move(path)) {
  // O_NONBLOCK: opening a named pipe must not hang; it has no effect on regular files.
  fd_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd_ < 0) throw IoError(str("cannot open ", path_, ": ", std::strerror(errno)));
  struct stat info;
  if (fstat(fd_, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(fd_);
    throw IoError(str("cannot read ", path_, ": wanted a regular file, got a directory or device"));
  }
  size_ = static_cast<uint64_t>(info.st_size);
}

InputFile::~InputFile() { close(fd_); }

void InputFile::read(uint64_t offset, void* to, size_t bytes) const {
  char* next = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t count = pread(fd_, next, bytes, static_cast<off_t>(offset));
    if (count < 0) {
      if (errno == EINTR) continue;
      throw IoError(str("cannot read ", path_, " at byte ", offset, ": ", std::strerror(errno)));
    }
    if (count == 0) {
      throw IoError(str("cannot read ", path_, ": wanted ", bytes, " more bytes at byte ", offset,
                        ", but the file ends there"));
    }
    next += count;
    offset += static_cast<uint64_t>(count);
    bytes -= static_cast<size_t>(count);
  }
}

std::vector<uint8_t> read_file(const std::string& path, uint64_t max_bytes) {
  const InputFile file(path);
  if (file.size() > max_bytes) {
    throw IoError(
        str("cannot read ", path, ": wanted at most ", max_bytes, " bytes, got ", file.size()));
  }
  std::vector<uint8_t> bytes(file.size());
  file.read(0, bytes.data(), bytes.size());
  return bytes;
}

}  // namespace lockstep
