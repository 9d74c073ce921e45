#include "lockstep/distributed/comm/line_relay.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>

namespace lockstep::comm {
namespace {

constexpr size_t kLongestLine = 64 << 10;  // a longer one is cut in two
constexpr size_t kLongestLastLine = 500;

/// What cannot be written is lost: a full disk or a closed terminal must not end the job.
void write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n > 0) {
      bytes.remove_prefix(static_cast<size_t>(n));
    } else if (errno == EAGAIN) {
      pollfd p{fd, POLLOUT, 0};
      ::poll(&p, 1, 100);
    } else if (errno != EINTR) {
      return;
    }
  }
}

}  // namespace

void LineRelay::add(std::string_view bytes) {
  partial_ += bytes;
  size_t begin = 0;
  for (size_t end = partial_.find('\n'); end != std::string::npos;
       end = partial_.find('\n', begin)) {
    take_line(std::string_view(partial_).substr(begin, end - begin));
    begin = end + 1;
  }
  partial_.erase(0, begin);
  if (partial_.size() > kLongestLine) finish();
}

void LineRelay::finish() {
  if (!partial_.empty()) take_line(partial_);
  partial_.clear();
}

void LineRelay::take_line(std::string_view line) {
  write_all(fd_, prefix_ + std::string(line) + '\n');
  while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.remove_suffix(1);
  if (const size_t r = line.rfind('\r'); r != std::string_view::npos) line.remove_prefix(r + 1);
  if (!line.empty()) last_line_ = line.substr(0, kLongestLastLine);
}

}  // namespace lockstep::comm
