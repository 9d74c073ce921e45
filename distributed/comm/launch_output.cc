#include "lockstep/distributed/comm/launch_output.h"

#include "lockstep/base/error.h"
#include "lockstep/distributed/comm/child_process.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <utility>

namespace lockstep::comm {

void RankOutput::add_to(std::vector<pollfd>& fds) const {
  for (const Stream& s : streams_) {
    if (s.pipe.valid()) fds.push_back({s.pipe.fd(), POLLIN, 0});
  }
}

void RankOutput::relay() {
  for (Stream& s : streams_) drain(s);
}

void RankOutput::finish() {
  for (Stream& s : streams_) {
    drain(s);
    s.pipe.close();
    s.relay->finish();
  }
}

void RankOutput::drain(Stream& stream) {
  char buffer[65536];
  for (int i = 0; i < 4 && stream.pipe.valid(); ++i) {
    const ssize_t n = ::read(stream.pipe.fd(), buffer, sizeof buffer);
    if (n > 0) {
      stream.relay->add({buffer, static_cast<size_t>(n)});
    } else if (n == 0) {
      stream.pipe.close();
    } else {
      return;
    }
  }
}

LaunchOutput::LaunchOutput(std::string log_dir, int nproc, int first_rank)
    : log_dir_(std::move(log_dir)), nproc_(nproc), first_rank_(first_rank) {
  if (nproc_ == 1 || log_dir_ == "-") return;
  if (log_dir_.empty()) {
    // mkdtemp replaces the last six letters.
    std::string pattern = (std::filesystem::temp_directory_path() / "lockstep-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) {
      throw IoError(str("launch: cannot make ", pattern, ": ", std::strerror(errno)));
    }
    log_dir_ = pattern;
    own_log_dir_ = true;
  }
  std::error_code error;
  std::filesystem::create_directories(log_dir_, error);
  if (error) throw IoError(str("launch: cannot make ", log_dir_, ": ", error.message()));
}

LaunchOutput::~LaunchOutput() {
  if (!own_log_dir_) return;
  std::error_code stays;
  for (int r = 1; r < nproc_; ++r) {
    if (!has_log(r)) std::filesystem::remove(log_path(r), stays);
  }
  if (!std::filesystem::remove(log_dir_, stays)) {
    std::cerr << "lockstep: the output of ranks other than 0 is in " << log_dir_ << "\n";
  }
}

RankOutput LaunchOutput::open(int index, RankWriters& writers) const {
  RankOutput output;
  const bool to_console = index == 0 || log_dir_ == "-";
  if (!to_console) {
    // Not emptied: it may be the log of another job that still runs, or of one to be resumed.
    output.log_ =
        Socket(::open(log_path(index).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
    if (!output.log_.valid()) {
      throw IoError(str("launch: cannot write ", log_path(index), ": ", std::strerror(errno)));
    }
  }
  const std::string prefix = to_console ? str("[rank ", first_rank_ + index, "] ") : "";
  const auto add_stream = [&](int fd) {
    auto [read, write] = make_pipe();
    output.streams_.push_back({std::move(read), std::make_unique<LineRelay>(fd, prefix)});
    writers.writers.push_back(std::move(write));
    return writers.writers.back().fd();
  };
  // A terminal is given to rank 0 itself, so that it can draw; a file takes the others' output
  // directly.
  if (to_console && !(index == 0 && ::isatty(1))) {
    writers.out_fd = add_stream(1);
  } else {
    writers.out_fd = to_console ? 1 : output.log_.fd();
  }
  writers.err_fd = add_stream(to_console ? 2 : output.log_.fd());
  return output;
}

std::string LaunchOutput::log_path(int index) const {
  return str(log_dir_, "/rank", first_rank_ + index, ".log");
}

bool LaunchOutput::has_log(int index) const {
  std::error_code missing;
  const auto bytes = std::filesystem::file_size(log_path(index), missing);
  return !missing && bytes > 0;
}

}  // namespace lockstep::comm
