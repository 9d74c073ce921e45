#include "lockstep/train/run_dir.h"

#include "lockstep/base/error.h"
#include "lockstep/train/kept_checkpoints.h"
#include "lockstep/train/tensorboard_log.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>
#include <utility>

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLockName = ".lock";

bool starts_and_ends(const std::string& name, const char* begin, const char* end) {
  return name.starts_with(begin) && name.ends_with(end);
}

bool is_ring_log(const std::string& name) { return starts_and_ends(name, "ring.rank", ".json"); }

bool belongs_to_a_run(const std::string& name) {
  return name == "run.json" || name == "metrics.jsonl" || name == "last.safetensors" ||
         name == "best.safetensors" || name == "bucket_plan.json" || name == "report.html" ||
         name == "trace.json" || starts_and_ends(name, "steps.rank", ".jsonl") ||
         is_ring_log(name) || TensorboardLog::made(name) || is_kept_checkpoint(name) ||
         (name.ends_with(".tmp") && belongs_to_a_run(name.substr(0, name.size() - 4)));
}

bool holds_files(const fs::path& path) {
  for (const auto& entry : fs::directory_iterator(path)) {
    // The launcher opens its logs before rank 0 comes here.
    const std::string name = entry.path().filename();
    if (name != kLockName && !starts_and_ends(name, "rank", ".log")) return true;
  }
  return false;
}

[[noreturn]] void fail(const std::string& path, const std::string& what) {
  throw IoError(str("output directory ", path, ": ", what));
}

enum class Lock { kTaken, kInUse, kImpossible };

/// A run that was just killed may need a moment to be gone, so it is tried for a second.
Lock try_lock(int fd, int operation) {
  constexpr int kTries = 20;
  for (int tries = 1; ::flock(fd, operation | LOCK_NB) != 0; ++tries) {
    // Some network file systems have no locks; a run without one is better than none.
    if (errno != EWOULDBLOCK) return Lock::kImpossible;
    if (tries == kTries) return Lock::kInUse;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return Lock::kTaken;
}

constexpr const char* kInUse =
    "another run is using it; wait for it to end or pass another --output-dir";

void check_contents(const RunDirOptions& options) {
  lockstep::check(!options.path.empty(), "output directory: wanted a path, got an empty one");
  lockstep::check(!(options.resume && options.overwrite),
                  "output directory: wanted --resume or --overwrite, got both");
  try {
    if (!fs::exists(options.path)) return;
    if (!fs::is_directory(options.path)) fail(options.path, "wanted a directory, got a file");
    if (::access(options.path.c_str(), W_OK | X_OK) != 0) {
      fail(options.path, str("cannot be written: ", std::strerror(errno)));
    }
    if (!options.resume && !options.overwrite && holds_files(options.path)) {
      fail(options.path,
           "is not empty; pass --resume auto to go on with its run, --overwrite to replace it, or "
           "another --output-dir");
    }
  } catch (const fs::filesystem_error& error) {
    fail(options.path, error.code().message());
  }
}

}  // namespace

void RunDir::check(const RunDirOptions& options) {
  check_contents(options);
  // Shared, so that two who only ask do not take each other for a run.
  const int fd = ::open((options.path + "/" + kLockName).c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  const Lock lock = try_lock(fd, LOCK_SH);
  ::close(fd);
  if (lock == Lock::kInUse) fail(options.path, kInUse);
}

RunDir::RunDir(const RunDirOptions& options) : path_(options.path) {
  check_contents(options);
  std::error_code error;
  fs::create_directories(path_, error);
  if (error) fail(path_, str("cannot be made: ", error.message()));
  // The lock goes with the process, however it dies; the file stays and means nothing by itself.
  lock_fd_ = ::open(file(kLockName).c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644);
  if (lock_fd_ < 0) fail(path_, str("cannot be written: ", std::strerror(errno)));
  const Lock lock = try_lock(lock_fd_, LOCK_EX);
  if (lock != Lock::kTaken) ::close(std::exchange(lock_fd_, -1));
  if (lock == Lock::kInUse) fail(path_, kInUse);
  try {
    check_contents(
        options);  // again: another run may have come and gone while this one waited for the lock
  } catch (...) {
    ::close(lock_fd_);
    throw;
  }
  for (const auto& entry : fs::directory_iterator(path_, error)) {
    const std::string name = entry.path().filename();
    // A run that goes on has none of the failure that it comes from.
    if (!is_ring_log(name) && !(options.overwrite && belongs_to_a_run(name))) continue;
    std::error_code failed;
    fs::remove(entry.path(), failed);
    if (failed) {
      ::close(lock_fd_);
      fail(path_, str("cannot delete ", entry.path().filename().string(), ": ", failed.message()));
    }
  }
}

RunDir::~RunDir() {
  if (lock_fd_ >= 0) ::close(lock_fd_);
}

}  // namespace lockstep
