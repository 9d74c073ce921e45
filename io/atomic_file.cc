#include "lockstep/io/atomic_file.h"

#include "lockstep/base/error.h"
#include "lockstep/base/failpoint.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <utility>

namespace lockstep {
namespace {

std::string directory_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string remedy(int error, const std::string& path) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return "; the disk is full: free some space or choose another directory";
    case EACCES:
    case EPERM:
    case EROFS:
      return str("; the directory ", directory_of(path),
                 " cannot be written to: change its permissions or choose another");
    case ENOENT:
    case ENOTDIR:
      return str("; the directory ", directory_of(path), " does not exist: create it first");
    default:
      return "";
  }
}

// Whether `fd` is still the file called `name`: between our open() and our lock another writer may
// have renamed it away.
bool still_named(int fd, const std::string& name) {
  struct stat open_file, named_file;
  return fstat(fd, &open_file) == 0 && lstat(name.c_str(), &named_file) == 0 &&
         open_file.st_dev == named_file.st_dev && open_file.st_ino == named_file.st_ino;
}

// What may not be replaced: a folder, a device, a pipe, and links to these such as /dev/stdout.
// Root could take /dev/null from all other programs.
bool is_special(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) return true;
  // /dev/stdout leads there, even when the standard output is a regular file.
  char target[16] = {};
  return readlink(path.c_str(), target, sizeof target - 1) > 0 &&
         std::string_view(target).starts_with("/proc/");
}

}  // namespace

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)), temporary_(path_ + ".tmp") {
  if (is_special(path_)) {
    throw IoError(
        str("AtomicFile: ", path_,
            ": wanted a new name or a regular file to replace, got a directory or device; "
            "give another name"));
  }
  for (;;) {
    // No O_TRUNC: until it is locked the file may be another writer's.
    fd_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd_ < 0) fail("cannot create the temporary file", errno);
    // File systems without locks answer ENOLCK or EOPNOTSUPP; a second writer is then not noticed.
    if (flock(fd_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      close(std::exchange(fd_, -1));
      throw IoError(str("AtomicFile: ", path_, ": another writer is at work on ", temporary_,
                        "; is a second job using the same output directory?"));
    }
    if (still_named(fd_, temporary_)) break;
    close(std::exchange(fd_, -1));
  }
  if (ftruncate(fd_, 0) != 0) {
    const int error = errno;
    discard();
    fail("cannot empty the temporary file", error);
  }
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::write(const void* data, size_t bytes) {
  check(fd_ >= 0, "AtomicFile::write: ", path_, " was committed or has failed already");
  const char* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t count = ::write(fd_, next, bytes);
    if (count < 0) {
      if (errno == EINTR) continue;
      const int error = errno;
      discard();
      fail(str("cannot write ", bytes, " more bytes after ", written_), error);
    }
    next += count;
    bytes -= static_cast<size_t>(count);
    written_ += static_cast<size_t>(count);
  }
  failpoint("atomic_file.after_write");
}

void AtomicFile::commit() {
  check(fd_ >= 0, "AtomicFile::commit: ", path_, " was committed or has failed already");
  failpoint("atomic_file.before_fsync");
  if (fsync(fd_) != 0) {
    const int error = errno;
    discard();
    fail(str("cannot flush ", written_, " bytes to the disk"), error);
  }
  failpoint("atomic_file.before_rename");
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) {
    const int error = errno;
    discard();
    fail("cannot rename the temporary file", error);
  }
  failpoint("atomic_file.after_rename");
  // The data is safe since fsync(), so an error of close() says nothing more.
  close(std::exchange(fd_, -1));
  const int directory = open(directory_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) fail("written, but the directory cannot be opened to make it last", errno);
  const int error = fsync(directory) == 0 ? 0 : errno;
  close(directory);
  // EINVAL: a file system on which directories cannot be flushed.
  if (error != 0 && error != EINVAL) fail("written, but the directory cannot be flushed", error);
}

void AtomicFile::fail(const std::string& what, int error) const {
  throw IoError(
      str("AtomicFile: ", path_, ": ", what, ": ", std::strerror(error), remedy(error, path_)));
}

void AtomicFile::discard() noexcept {
  if (fd_ < 0) return;
  // Removed before the lock goes, so that it cannot be another writer's by then.
  unlink(temporary_.c_str());
  close(std::exchange(fd_, -1));
}

void write_file_atomically(const std::string& path, const std::string& contents) {
  AtomicFile file(path);
  file.write(contents.data(), contents.size());
  file.commit();
}

}  // namespace lockstep
