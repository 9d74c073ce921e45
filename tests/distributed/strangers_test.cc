// Strangers at the ports of a job of three processes: its result, memory and descriptors are what
// they are without, and a rank that comes late still gets in.
#include "lockstep/base/error.h"
#include "lockstep/distributed/comm/socket.h"
#include "lockstep/distributed/comm/store_frame.h"
#include "lockstep/distributed/comm/tcp_store.h"
#include "lockstep/tests/distributed/sockets_of.h"
#include "lockstep/tests/support/eventually.h"
#include "lockstep/tests/support/process.h"

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <iostream>
#include <memory>
#include <random>
#include <thread>

namespace lockstep {
namespace {

using comm::Socket;
using comm::StoreFrame;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::Process;

const char* const kToken = "only this job's ranks know it";
constexpr int kRanks = 3;
constexpr size_t kIdle = 1000;

uint16_t free_port() { return TcpStore({.serve = true, .token = "t"}).port(); }

struct Job {
  explicit Job(int steps) : port(free_port()) {
    for (int r = 0; r < kRanks; ++r) {
      ranks.push_back(std::make_unique<Process>(
          std::vector<std::string>{testing::program_path("tests/distributed/rank_program"), "work",
                                   std::to_string(steps)},
          testing::ProcessOptions{.env = {{"RANK", std::to_string(r)},
                                          {"WORLD_SIZE", std::to_string(kRanks)},
                                          {"MASTER_ADDR", "127.0.0.1"},
                                          {"MASTER_PORT", std::to_string(port)},
                                          {"LOCKSTEP_TOKEN", kToken}}}));
    }
  }
  bool ready() const {
    return std::all_of(ranks.begin(), ranks.end(),
                       [](const auto& rank) { return rank->out().rfind("ready\n", 0) == 0; });
  }
  bool running() {
    return std::none_of(ranks.begin(), ranks.end(),
                        [](const auto& rank) { return rank->ends_within(milliseconds(0)); });
  }
  pid_t pid(size_t rank) const { return ranks[rank]->pid(); }

  /// What each rank has printed at the end.
  std::vector<std::string> results() {
    std::vector<std::string> texts;
    for (const auto& rank : ranks) {
      CHECK(rank->wait(milliseconds(120'000)) == 0);
      CHECK(rank->err() == "");
      texts.push_back(rank->out());
    }
    return texts;
  }

  uint16_t port;
  std::vector<std::unique_ptr<Process>> ranks;
};

Socket stranger(uint16_t port) {
  return comm::connect_to("127.0.0.1", port, steady_clock::now() + milliseconds(10'000));
}

/// The peer may hang up at any moment.
void send(const Socket& socket, const std::string& bytes) {
  try {
    comm::send_all(socket, bytes, steady_clock::now() + milliseconds(1000));
  } catch (const CommError&) {
  }
}

/// All of it at once, until `stop`; what came in the way of a stranger is thrown by join().
class Siege {
 public:
  explicit Siege(uint16_t port) : port_(port) {
    start([this] { stranger(port_); });
    start([this, random = std::mt19937(1)]() mutable {
      std::string bytes(random() % 4096 + 1, '\0');
      for (char& c : bytes) c = static_cast<char>(random());
      if (random() % 2 == 0 && bytes.size() > 4) bytes[1] = bytes[2] = bytes[3] = 0;
      send(stranger(port_), bytes);
    });
    start([this] {  // frames as a rank sends them, without the hello before
      for (const auto kind : {StoreFrame::Kind::kSet, StoreFrame::Kind::kAdd,
                              StoreFrame::Kind::kDelete, StoreFrame::Kind::kGet}) {
        send(stranger(port_), comm::encode_store_frame({.kind = kind, .number = 1, .key = "k"}));
      }
    });
    start([this] { dribble(); });
    start([this] { idle(); });
  }
  ~Siege() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  void start(std::function<void()> act) {
    threads_.emplace_back([this, act = std::move(act)] {
      while (!stop_) {
        try {
          act();
        } catch (const CommError&) {
          // The job has ended.
        }
        std::this_thread::sleep_for(milliseconds(2));
      }
    });
  }
  /// A hello whose bytes come one after the other.
  void dribble() {
    const std::string hello = comm::encode_store_frame(
        {.kind = StoreFrame::Kind::kHello, .value = std::string(200, 'x')});
    std::vector<Socket> slow;
    for (int i = 0; i < 20; ++i) slow.push_back(stranger(port_));
    for (size_t at = 0; at < hello.size() && !stop_; ++at) {
      for (const Socket& socket : slow) send(socket, hello.substr(at, 1));
      std::this_thread::sleep_for(milliseconds(20));
    }
  }
  void idle() {
    std::vector<Socket> silent;
    while (silent.size() < kIdle && !stop_) silent.push_back(stranger(port_));
    while (!stop_) std::this_thread::sleep_for(milliseconds(5));
  }

  const uint16_t port_;
  std::atomic<bool> stop_ = false;
  std::vector<std::thread> threads_;
};

void allow_descriptors() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

TEST_CASE("strangers at the store: the same bits, bounded memory, and a late rank gets in") {
  allow_descriptors();
  constexpr int kSteps = 250;
  Job quiet(kSteps);
  REQUIRE(testing::eventually([&] { return quiet.ready(); }, milliseconds(60'000)));
  long quiet_kib = 0;
  while (quiet.running()) {
    quiet_kib = std::max(quiet_kib, testing::kib_of(quiet.pid(0), "VmHWM"));
    std::this_thread::sleep_for(milliseconds(10));
  }
  const auto wanted = quiet.results();

  Job job(kSteps);
  const Siege siege(job.port);
  REQUIRE(testing::eventually([&] { return job.ready(); }, milliseconds(60'000)));
  long kib = 0;
  size_t most_descriptors = 0;
  int64_t came = 0;
  while (job.running()) {
    kib = std::max(kib, testing::kib_of(job.pid(0), "VmHWM"));
    most_descriptors = std::max(most_descriptors, testing::descriptors_of(job.pid(0)).size());
    try {
      TcpStore late({.port = job.port, .token = kToken, .timeout = milliseconds(20'000)});
      CHECK(late.add("late", 1) == ++came);
    } catch (const CommError& e) {
      // Refused because the job is at its end: its store goes before its processes do.
      CHECK_MESSAGE(testing::eventually([&] { return !job.running(); }, milliseconds(60'000)),
                    e.what());
      break;
    }
    std::this_thread::sleep_for(milliseconds(20));
  }
  CHECK(job.results() == wanted);
  std::cout << "rank 0: at most " << quiet_kib << " KiB without strangers, " << kib << " KiB and "
            << most_descriptors << " descriptors with them; a late rank came " << came
            << " times\n";
  CHECK(came > 10);
  CHECK(kib < quiet_kib + 16 * 1024);
  CHECK(most_descriptors < 256 + 64);
}

TEST_CASE(
    "a job on one machine listens on 127.0.0.1 alone, and once it runs, for the store alone") {
  Job job(100);
  std::set<testing::Listener> seen;
  while (!job.ready() && job.running()) {
    for (size_t r = 0; r < kRanks; ++r) seen.merge(testing::listeners_of(job.pid(r)));
  }
  for (const auto& listener : seen) CHECK(listener.address == testing::kLoopback);
  CHECK(testing::listeners_of(job.pid(0)) ==
        std::set<testing::Listener>{{testing::kLoopback, job.port}});
  CHECK(testing::listeners_of(job.pid(1)).empty());
  CHECK(testing::listeners_of(job.pid(2)).empty());
  job.results();
}

}  // namespace
}  // namespace lockstep
