#include "lockstep/tools/doctor/loopback.h"

#include "lockstep/base/error.h"
#include "lockstep/distributed/comm/gloo_group.h"
#include "lockstep/distributed/comm/job_token.h"
#include "lockstep/distributed/comm/tcp_store.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace lockstep::doctor {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Both ranks are here: who does not answer by then does not at all.
constexpr milliseconds kConnect{2000};
constexpr int kRepeats = 5;
constexpr int64_t kElements = 25 * (int64_t{1} << 20) / 4;

Loopback run_rank(int rank, uint16_t port, const std::string& token) {
  Loopback result;
  try {
    auto store = std::make_shared<TcpStore>(
        TcpStoreOptions{.port = port, .token = token, .timeout = kConnect});
    const auto group =
        make_gloo_group(std::move(store), "doctor", rank, 2,
                        {.timeout = milliseconds(10'000), .start_timeout = milliseconds(5000)});
    Tensor values = Tensor::empty({kElements}, DType::kF32);
    std::fill_n(values.mutable_data<float>(), kElements, 1.0F + static_cast<float>(rank));
    result.bytes = static_cast<int64_t>(values.nbytes());
    double factor = 1;
    for (int i = 0; i < kRepeats; ++i) {
      const auto start = steady_clock::now();
      group->all_reduce(values)->wait();
      const std::chrono::duration<double> took = steady_clock::now() - start;
      result.seconds = i == 0 ? took.count() : std::min(result.seconds, took.count());
      factor *= 2;
    }
    const float wanted =
        static_cast<float>(1.5 * factor);  // the mean of 1 and 2, doubled each time
    const float* got = values.data<float>();
    check(std::all_of(got, got + kElements, [=](float v) { return v == wanted; }),
          "two ranks' all-reduce gave a wrong sum");
  } catch (const std::exception& e) {
    result.error = e.what();
  }
  return result;
}

}  // namespace

Loopback measure_loopback() {
  try {
    const std::string token = make_job_token();
    const TcpStore store({.serve = true, .token = token, .timeout = kConnect});
    Loopback other;
    std::thread peer([&] { other = run_rank(1, store.port(), token); });
    Loopback result = run_rank(0, store.port(), token);
    peer.join();
    if (result.error.empty()) result.error = other.error;
    return result;
  } catch (const std::exception& e) {
    return {.error = e.what()};
  }
}

}  // namespace lockstep::doctor
