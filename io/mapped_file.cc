#include "lockstep/io/mapped_file.h"

#include "lockstep/base/error.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>
#include <cstring>
#include <utility>

namespace lockstep {

MappedFile::MappedFile(std::string path) : path_(std::move(path)) {
  // O_NONBLOCK: opening a named pipe must not hang; it has no effect on regular files.
  const int fd = open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) throw IoError(str("cannot open ", path_, ": ", std::strerror(errno)));
  struct stat info;
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(fd);
    throw IoError(str("cannot read ", path_, ": wanted a regular file, got a directory or device"));
  }
  size_ = static_cast<size_t>(info.st_size);
  void* data = size_ == 0 ? nullptr : mmap(nullptr, size_, PROT_READ, MAP_SHARED, fd, 0);
  const int error = errno;
  close(fd);
  if (data == MAP_FAILED) {
    throw IoError(str("cannot map ", path_, ", ", size_, " bytes: ", std::strerror(error)));
  }
  data_ = static_cast<const uint8_t*>(data);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<uint8_t*>(data_), size_);
}

}  // namespace lockstep
