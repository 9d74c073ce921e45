#include "lockstep/train/meter.h"

#include "lockstep/base/error.h"
#include "lockstep/distributed/comm/single_group.h"
#include "lockstep/distributed/comm/thread_group.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tests/support/sim_device.h"
#include "lockstep/train/rank_zero.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>

namespace lockstep {
namespace {

using testing::SimDevice;

TEST_CASE("a loss and a count on a device are read when somebody looks") {
  const SimDevice device;
  const auto on_device = [](const Tensor& x) { return ops::to_device(x, Device::cuda()); };
  Meter meter;
  for (int i = 1; i <= 1500; ++i) {  // more than are kept unread
    Tensor loss = on_device(Tensor::from<float>({1.5f}, {}));
    meter.add(loss, on_device(Tensor::from<int64_t>({2}, {})), 4);
    if (i == 3) CHECK(meter.sums() == std::array<double, 3>{18, 6, 12});
  }
  CHECK(meter.sums() == std::array<double, 3>{9000, 3000, 6000});
  meter.add(on_device(Tensor::from<float>({7}, {})), on_device(Tensor::from<int64_t>({1}, {})), 1);
  meter.set_sums({1, 2, 3});
  CHECK(meter.sums() == std::array<double, 3>{1, 2, 3});
  CHECK_THROWS_AS(meter.add(Tensor::from<float>({1}, {}), Tensor::from<float>({1}, {}), 1),
                  ArgumentError);
}

TEST_CASE("ranks weigh by what they counted, and one may have none") {
  spawn(3, [](ProcessGroup& group) {
    Meter meter;
    if (group.rank() == 0) meter.add(1.0, 2, 2);
    if (group.rank() == 1) {
      meter.add(4.0, 0, 1);
      meter.add(3.0, 1, 1);
    }
    const Meter::Result all = meter.reduce(group);
    check(all.counted == 4, "counted");
    check(all.loss == 9.0 / 4, "loss");
    check(all.accuracy == 3.0 / 4, "accuracy");
  });
  const auto alone = make_single_group();
  CHECK(std::isnan(Meter().reduce(*alone).loss));
}

TEST_CASE("what rank 0 does fails on every rank") {
  spawn(3, [](ProcessGroup& group) {
    std::string message;
    try {
      run_on_rank_zero(group, "open", [] { throw IoError("disk full"); });
    } catch (const IoError& error) {
      check(group.rank() == 0, "only rank 0 throws the error itself");
      message = error.what();
    } catch (const CommError& error) {
      check(group.rank() != 0, "the others throw CommError");
      message = error.what();
    }
    check(message.find(group.rank() == 0 ? "disk full" : "open: a peer was lost") == 0, message);
    bool ran = false;
    run_on_rank_zero(group, "open", [&] { ran = true; });
    check(ran == (group.rank() == 0), "runs on rank 0 alone");
  });
}

TEST_CASE("bytes reach every rank") {
  spawn(3, [](ProcessGroup& group) {
    const auto bytes = broadcast_from_rank_zero(group, "read", [] {
      return std::vector<std::byte>{std::byte{1}, std::byte{255}};
    });
    check(bytes.size() == 2 && bytes[1] == std::byte{255}, "bytes");
    check(broadcast_from_rank_zero(group, "read", [] { return std::vector<std::byte>(); }).empty(),
          "no bytes");
  });
}

}  // namespace
}  // namespace lockstep
