// Meter: loss and accuracy over what was seen in an interval: images, masked tokens. Each rank adds
// up its own; the ranks are put together only when somebody looks, so a step costs no communication
// for it.
#pragma once

#include "lockstep/distributed/comm/process_group.h"
#include "lockstep/tensor/tensor.h"

#include <array>
#include <cstdint>
#include <vector>

namespace lockstep {

class Meter {
 public:
  /// `mean_loss` over `counted` items, of which `correct` were right.
  void add(double mean_loss, int64_t correct, int64_t counted);
  /// The same from tensors of one element: a loss, and a count in i64, undefined where nothing is
  /// right or wrong. Those on a device are kept, and read when somebody looks, so that no step
  /// waits for the device.
  void add(const Tensor& mean_loss, const Tensor& correct, int64_t counted);

  /// Means over all items of all ranks; NaN when there were none. Collective.
  struct Result {
    double loss = 0;
    double accuracy = 0;
    int64_t counted = 0;
  };
  Result reduce(ProcessGroup& group);

  void reset() { set_sums({}); }
  /// This rank's sums: loss, correct, counted.
  const std::array<double, 3>& sums();
  void set_sums(const std::array<double, 3>& sums);

 private:
  /// On a device, and not read yet.
  struct Unread {
    Tensor mean_loss, correct;
    int64_t counted;
  };
  void read();

  std::array<double, 3> sums_{};
  std::vector<Unread> unread_;
};

}  // namespace lockstep
