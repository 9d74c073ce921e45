// FailureSource: implemented by groups that can tell their owner of a failure when they find it,
// not when they are next used.
#pragma once

#include <functional>
#include <string>

namespace lockstep::comm {

class FailureSource {
 public:
  virtual ~FailureSource() = default;
  /// `told` is called once, from any thread, with the reason. To be set before the first operation.
  virtual void on_failure(std::function<void(std::string)> told) = 0;
};

}  // namespace lockstep::comm
