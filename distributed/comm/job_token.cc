#include "lockstep/base/error.h"
#include "lockstep/distributed/comm/tcp_store.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace lockstep {
namespace {

constexpr size_t kMaxToken = 256;

std::string token_of_file(const char* path) {
  // The mode is asked of the open file, so that it cannot be exchanged between the two.
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a named pipe must not hang
  if (fd < 0) {
    throw ArgumentError(str("LOCKSTEP_TOKEN_FILE: cannot open ", path, ": ", std::strerror(errno)));
  }
  struct stat info {};
  std::array<char, kMaxToken + 1> buffer;
  const bool ok = ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
  const ssize_t n = ok ? ::read(fd, buffer.data(), buffer.size()) : -1;
  ::close(fd);
  if (n < 0)
    throw ArgumentError(str("LOCKSTEP_TOKEN_FILE: cannot read ", path, ": wanted a regular file"));
  check((info.st_mode & 077) == 0, "LOCKSTEP_TOKEN_FILE: others may read ", path, "; chmod 600 it");
  const std::string text(buffer.data(), static_cast<size_t>(n));
  return text.substr(0, text.find('\n'));
}

}  // namespace

std::string job_token_from_env() {
  std::string token;
  const char* source = "LOCKSTEP_TOKEN";
  if (const char* value = std::getenv("LOCKSTEP_TOKEN"); value != nullptr && *value != '\0') {
    token = value;
  } else if (const char* path = std::getenv("LOCKSTEP_TOKEN_FILE");
             path != nullptr && *path != '\0') {
    source = "LOCKSTEP_TOKEN_FILE";
    token = token_of_file(path);
  } else {
    throw ArgumentError(
        "LOCKSTEP_TOKEN is not set: the ranks of a job share a secret that keeps strangers out; "
        "set it to the same random text on all ranks (lockstep launch does), or name a file of "
        "mode 0600 that holds it in LOCKSTEP_TOKEN_FILE");
  }
  check(!token.empty() && token.size() <= kMaxToken, source, ": wanted 1 to ", kMaxToken,
        " bytes, got ", token.size());
  return token;
}

std::string make_job_token() {
  std::array<unsigned char, 16> bytes;
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    throw IoError(str("make_job_token: getrandom: ", std::strerror(errno)));
  }
  std::string text;
  for (unsigned char b : bytes) {
    text += "0123456789abcdef"[b >> 4];
    text += "0123456789abcdef"[b & 15];
  }
  return text;
}

}  // namespace lockstep
