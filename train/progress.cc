#include "lockstep/train/progress.h"

#include "lockstep/base/str.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cmath>

namespace lockstep {

std::string format_duration(double seconds) {
  if (!(seconds >= 0) || seconds > 1e8) return "?";
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  const auto hours = static_cast<long long>(whole / 3600);
  const auto minutes = static_cast<int>(whole / 60 % 60), rest = static_cast<int>(whole % 60);
  char text[32];
  if (hours > 0) {
    std::snprintf(text, sizeof text, "%lld:%02d:%02d", hours, minutes, rest);
  } else {
    std::snprintf(text, sizeof text, "%d:%02d", minutes, rest);
  }
  return text;
}

std::string format_progress(const ProgressState& state, const std::string& comm_phrase) {
  char means[64] = "loss -  acc -";
  if (!std::isnan(state.loss)) {
    std::snprintf(means, sizeof means, "loss %.4f  acc %.2f %%", state.loss, 100 * state.accuracy);
  }
  char text[192];
  std::snprintf(text, sizeof text, "epoch %lld/%lld step %lld/%lld  %s  %.0f/s  ETA %s",
                static_cast<long long>(state.epoch + 1), static_cast<long long>(state.epochs),
                static_cast<long long>(state.step), static_cast<long long>(state.steps), means,
                state.samples_per_second, format_duration(state.seconds_left).c_str());
  return comm_phrase.empty() ? text : str(text, "  ", comm_phrase);
}

std::string format_percent(double fraction) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f %%", 100 * fraction);
  return text;
}

bool Progress::fits(const std::string& line) const {
  winsize size{};
  if (::ioctl(::fileno(out_), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return true;
  return line.size() < size.ws_col;
}

Progress::Progress(std::FILE* out)
    : out_(out), terminal_(out != nullptr && ::isatty(::fileno(out)) != 0) {}

Progress::~Progress() {
  if (!open_) return;
  std::fputc('\n', out_);
  std::fflush(out_);
}

void Progress::update(const std::string& line) {
  if (out_ == nullptr) return;
  if (terminal_ && fits(line)) {
    // Carriage return, the line, and "erase to the end of the line".
    std::fprintf(out_, "\r%s\x1b[K", line.c_str());
    open_ = true;
    std::fflush(out_);
  } else {
    say(line);
  }
}

void Progress::say(const std::string& line) {
  if (out_ == nullptr) return;
  if (open_) std::fputc('\n', out_);
  open_ = false;
  std::fprintf(out_, "%s\n", line.c_str());
  std::fflush(out_);
}

}  // namespace lockstep
