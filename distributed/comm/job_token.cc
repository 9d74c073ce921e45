#include "lockstep/distributed/comm/job_token.h"

#include "lockstep/base/error.h"
#include "lockstep/base/fnv.h"

#include <crypt.h>
#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>

namespace lockstep {
namespace {

constexpr size_t kMaxToken = 256;

constexpr const char* kRemedy =
    "set LOCKSTEP_TOKEN to the same random text on all ranks (lockstep launch does), or name a "
    "file of mode 0600 that holds it in LOCKSTEP_TOKEN_FILE";

/// The first line; nothing if there is no such file.
std::optional<std::string> read_private(const std::string& path, const char* what) {
  // The mode is asked of the open file, so that it cannot be exchanged between the two.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe must not hang
  if (fd < 0 && errno == ENOENT) return std::nullopt;
  if (fd < 0) {
    throw ArgumentError(str(what, ": cannot open ", path, ": ", std::strerror(errno)));
  }
  struct stat info {};
  std::array<char, kMaxToken + 1> buffer;
  const bool ok = ::fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
  const ssize_t n = ok ? ::read(fd, buffer.data(), buffer.size()) : -1;
  ::close(fd);
  if (n < 0) throw ArgumentError(str(what, ": cannot read ", path, ": wanted a regular file"));
  check((info.st_mode & 077) == 0, what, ": others may read ", path, "; chmod 600 it");
  check(info.st_uid == ::geteuid() || info.st_uid == 0, what, ": ", path,
        " belongs to another user; ", kRemedy);
  const std::string text(buffer.data(), static_cast<size_t>(n));
  return text.substr(0, text.find('\n'));
}

void check_token(const std::string& token, const std::string& source) {
  check(!token.empty() && token.size() <= kMaxToken, source, ": wanted 1 to ", kMaxToken,
        " bytes, got ", token.size());
}

/// `secret` and `job` through crypt(3)'s SHA-512: nobody gets from the one back to the other.
std::string derived(const std::string& secret, const std::string& job) {
  char setting[64];
  std::snprintf(setting, sizeof setting, "$6$rounds=1000$%016llx$",
                static_cast<unsigned long long>(fnv1a(job)));  // a salt has 16 characters
  const auto data = std::make_unique<crypt_data>();
  const char* result = ::crypt_r(secret.c_str(), setting, data.get());
  if (result == nullptr || !std::string(result).starts_with(setting)) {
    throw Error(str("job token: crypt refuses SHA-512; ", kRemedy));
  }
  return result + std::strlen(setting);
}

/// Writes a new secret under a name of its own and links it, whole, to `path`: the first to come
/// wins.
void make_secret(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  std::filesystem::create_directories(folder.parent_path(), error);
  ::mkdir(folder.c_str(), 0700);
  const std::string own = str(path, ".", make_job_token());
  const int fd = ::open(own.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  bool ok = fd >= 0;
  if (ok) {
    const std::string text = make_job_token() + "\n";
    ok = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
         ::fsync(fd) == 0 && (::link(own.c_str(), path.c_str()) == 0 || errno == EEXIST);
  }
  const int why = errno;
  if (fd >= 0) {
    ::close(fd);
    ::unlink(own.c_str());
  }
  if (!ok) {
    throw ArgumentError(
        str("job token: cannot make ", path, ": ", std::strerror(why), "; ", kRemedy));
  }
}

}  // namespace

std::string job_token(const std::string& job, const Environment& env) {
  std::string token;
  if (const auto value = env("LOCKSTEP_TOKEN")) {
    token = *value;
    check_token(token, "LOCKSTEP_TOKEN");
  } else if (const auto path = env("LOCKSTEP_TOKEN_FILE")) {
    const auto text = read_private(*path, "LOCKSTEP_TOKEN_FILE");
    check(text.has_value(), "LOCKSTEP_TOKEN_FILE: cannot open ", *path, ": ",
          std::strerror(ENOENT));
    token = *text;
    check_token(token, "LOCKSTEP_TOKEN_FILE");
  } else {
    token = derived(user_secret(env), job);
  }
  return token;
}

std::string user_secret_path(const Environment& env) {
  if (const auto config = env("XDG_CONFIG_HOME")) return *config + "/lockstep/token";
  if (const auto home = env("HOME")) return *home + "/.config/lockstep/token";
  return "";
}

std::string user_secret(const Environment& env) {
  const std::string path = user_secret_path(env);
  check(!path.empty(),
        "LOCKSTEP_TOKEN is not set, nor is HOME, where a secret could be kept: the ranks of a job "
        "share one, which keeps strangers out; ",
        kRemedy);
  auto secret = read_private(path, "job token");
  if (!secret) {
    make_secret(path);
    secret = read_private(path, "job token");
  }
  check(secret.has_value(), "job token: ", path, " has vanished; ", kRemedy);
  check_token(*secret, path);
  return *secret;
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
