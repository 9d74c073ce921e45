#include "lockstep/distributed/comm/meeting_note.h"

#include "lockstep/base/error.h"
#include "lockstep/distributed/comm/job_token.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <sstream>

namespace lockstep::comm {
namespace {

constexpr const char* kFirstLine = "lockstep rendezvous 1";
constexpr size_t kMaxSize = 4096;

IoError failed(const std::string& path, const char* what) {
  return IoError(str("rendezvous: cannot ", what, " ", path, ": ", std::strerror(errno)));
}

}  // namespace

MeetingNote::MeetingNote(std::string path, const MeetingPlace& place) : path_(std::move(path)) {
  const std::string text =
      str(kFirstLine, "\n", place.host, "\n", place.port, "\n", place.token, "\n", place.job, "\n");
  const std::string own = str(path_, ".", make_job_token());
  const int fd = ::open(own.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) throw failed(path_, "write");
  const bool written = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                       ::fsync(fd) == 0;
  struct stat info {};
  if (::fstat(fd, &info) == 0) file_ = info.st_ino;
  ::close(fd);
  if (!written || std::rename(own.c_str(), path_.c_str()) != 0) {
    const IoError error = failed(path_, "write");
    ::unlink(own.c_str());
    throw error;
  }
}

MeetingNote::~MeetingNote() {
  struct stat there {};
  if (::lstat(path_.c_str(), &there) == 0 && there.st_ino == file_) ::unlink(path_.c_str());
}

std::optional<MeetingPlace> read_meeting_note(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
  // ESTALE: a network file system's word for "replaced just now".
  if (fd < 0 && (errno == ENOENT || errno == ESTALE)) {
    // Nobody makes the folder: waiting for a file there would be in vain.
    const std::string folder = path.substr(0, path.rfind('/') + 1);
    struct stat there {};
    if (folder.empty() || ::stat(folder.c_str(), &there) == 0) return std::nullopt;
    throw IoError(str("rendezvous: ", path, ": there is no folder ", folder,
                      " on this machine; name one that all ranks see"));
  }
  if (fd < 0) throw failed(path, "read");
  struct stat info {};
  std::array<char, kMaxSize> buffer;
  const bool regular = ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
  const ssize_t n = regular ? ::read(fd, buffer.data(), buffer.size()) : -1;
  ::close(fd);
  if (!regular) throw IoError(str("rendezvous: ", path, ": wanted a regular file"));
  if (n < 0) return std::nullopt;
  if (info.st_uid != ::geteuid() || (info.st_mode & 077) != 0) {
    throw IoError(
        str("rendezvous: ", path, " is another user's, or others may read it; use another path"));
  }
  std::istringstream in(std::string(buffer.data(), static_cast<size_t>(n)));
  MeetingPlace place;
  std::string first, port;
  if (!std::getline(in, first) || first != kFirstLine || !std::getline(in, place.host) ||
      !std::getline(in, port) || !std::getline(in, place.token) || !std::getline(in, place.job)) {
    return std::nullopt;
  }
  const auto [stop, error] = std::from_chars(port.data(), port.data() + port.size(), place.port);
  if (error != std::errc() || stop != port.data() + port.size() || place.port == 0) {
    return std::nullopt;
  }
  return place;
}

}  // namespace lockstep::comm
