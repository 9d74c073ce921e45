// A program may be started without standard input, output or error. The first files it opens would
// then take their numbers, and every line meant for the console would land in a checkpoint or a
// log.
#include <fcntl.h>
#include <unistd.h>

namespace lockstep {
namespace {

// Before main() begins, so that no file can come first; open() takes the lowest free number.
[[maybe_unused]] const bool kOpened = [] {
  for (int fd = 0; fd <= 2; ++fd) {
    if (::fcntl(fd, F_GETFD) < 0 && ::open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY) < 0) {
      return false;
    }
  }
  return true;
}();

}  // namespace
}  // namespace lockstep
