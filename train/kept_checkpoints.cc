#include "lockstep/train/kept_checkpoints.h"

#include "lockstep/base/error.h"
#include "lockstep/base/failpoint.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <optional>

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-", kSuffix = ".safetensors";

std::optional<int64_t> step_of(std::string_view name) {
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return std::nullopt;
  if (name.size() <= kPrefix.size() + kSuffix.size()) return std::nullopt;
  const std::string_view digits =
      name.substr(kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size());
  int64_t step = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  // Nothing that looks alike: "step-007", "step--1".
  return kept_checkpoint_name(step) == name && step >= 0 ? std::optional(step) : std::nullopt;
}

[[noreturn]] void fail(const std::string& path, const char* what, int error) {
  throw IoError(str("keep checkpoint ", path, ": ", what, ": ", std::strerror(error),
                    "; last.safetensors is whole"));
}

/// A file of its own, where there are no hard links.
void copy(const std::string& from, const std::string& to) {
  std::error_code error;
  fs::copy_file(from, to, fs::copy_options::overwrite_existing, error);
  if (error) fail(to, "cannot copy last.safetensors", error.value());
  const int fd = ::open(to.c_str(), O_RDONLY | O_CLOEXEC);
  const int flushed = fd >= 0 && ::fsync(fd) == 0 ? 0 : errno;
  if (fd >= 0) ::close(fd);
  if (flushed != 0) fail(to, "cannot be flushed to the disk", flushed);
}

void make_names_last(const std::string& directory) {
  const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  // EINVAL: a file system on which directories cannot be flushed.
  const int error = fd >= 0 && ::fsync(fd) == 0 ? 0 : errno;
  if (fd >= 0) ::close(fd);
  if (error != 0 && error != EINVAL) fail(directory, "cannot be flushed", error);
}

}  // namespace

std::string kept_checkpoint_name(int64_t step) {
  return std::string(kPrefix) + std::to_string(step) + std::string(kSuffix);
}

bool is_kept_checkpoint(const std::string& name) { return step_of(name).has_value(); }

std::vector<int64_t> kept_checkpoints(const std::string& directory) {
  std::vector<int64_t> steps;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    if (const auto step = step_of(entry->path().filename().string())) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

void keep_last_checkpoint(const std::string& directory, int64_t step, int64_t keep) {
  check(keep >= 1, "keep_last_checkpoint: wanted keep >= 1, got ", keep);
  const std::string last = directory + "/last.safetensors";
  const std::string name = directory + "/" + kept_checkpoint_name(step);
  const std::string temporary = name + ".tmp";
  // By another name first: what is called so already is never missing.
  ::unlink(temporary.c_str());
  if (::link(last.c_str(), temporary.c_str()) != 0) {
    const int error = errno;
    if (error != EPERM && error != ENOTSUP && error != EMLINK && error != ENOSYS) {
      fail(name, "cannot give last.safetensors a second name", error);
    }
    copy(last, temporary);
  }
  failpoint("kept_checkpoint.before_rename");
  if (::rename(temporary.c_str(), name.c_str()) != 0) {
    const int error = errno;
    ::unlink(temporary.c_str());
    fail(name, "cannot rename its temporary name", error);
  }
  ::unlink(temporary.c_str());  // it stays where both were names of the same file already
  make_names_last(directory);
  failpoint("kept_checkpoint.before_prune");
  std::vector<int64_t> steps = kept_checkpoints(directory);
  std::erase_if(steps, [step](int64_t other) { return other > step; });
  for (size_t k = 0; k + static_cast<size_t>(keep) < steps.size(); ++k) {
    ::unlink((directory + "/" + kept_checkpoint_name(steps[k])).c_str());
  }
}

}  // namespace lockstep
