// SaveTimer: checkpoints by the time that passes, for steps and epochs that take nobody knows how
// long. By a clock that nobody sets, so that an administrator who does is no reason to save, nor
// not to.
#pragma once

#include <chrono>
#include <functional>
#include <utility>

namespace lockstep {

class SaveTimer {
 public:
  using Clock = std::chrono::steady_clock;
  using Now = std::function<Clock::time_point()>;

  /// `minutes` between two checkpoints; 0: never due.
  explicit SaveTimer(double minutes, Now now = Clock::now)
      : minutes_(minutes), now_(std::move(now)) {}

  bool on() const { return minutes_ > 0; }
  bool due() const {
    return on() &&
           std::chrono::duration<double, std::ratio<60>>(now_() - last_).count() >= minutes_;
  }
  /// A checkpoint is begun, for whatever reason, or training is.
  void saved() {
    if (on()) last_ = now_();
  }

 private:
  double minutes_;
  Now now_;
  Clock::time_point last_{};
};

}  // namespace lockstep
