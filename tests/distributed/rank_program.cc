// A rank for tests with processes: rank_program MODE [ARGUMENT]. Prints one line on an error and
// returns 1.
#include "lockstep/base/error.h"
#include "lockstep/distributed/comm/launcher.h"
#include "lockstep/distributed/comm/make_process_group.h"
#include "lockstep/tests/distributed/collectives.h"

#include <unistd.h>

#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <set>
#include <sstream>
#include <thread>

namespace lockstep {
namespace {

using std::chrono::milliseconds;

/// TEST_DEVICE: "cuda", or the host.
Device device_from_env() {
  return std::getenv("TEST_DEVICE") != nullptr ? Device::cuda() : Device::cpu();
}

ProcessGroupOptions options_from_env() {
  ProcessGroupOptions options{.device = device_from_env()};
  if (const char* t = std::getenv("TEST_START_MS"))
    options.start_timeout = milliseconds(std::atoi(t));
  if (const char* t = std::getenv("TEST_TIMEOUT_MS")) options.timeout = milliseconds(std::atoi(t));
  return options;
}

[[noreturn]] void sleep_forever() {
  for (;;) ::pause();
}

void write_pid(const std::string& folder, int rank) {
  const std::string path = folder + "/" + std::to_string(rank);
  std::ofstream(path + ".part") << ::getpid() << std::endl;
  std::rename((path + ".part").c_str(), path.c_str());
}

/// The addresses, in hexadecimal, on which somebody listens in this network namespace while the
/// ranks find each other: some do so for a moment only.
int print_listeners() {
  std::set<std::string> seen;
  std::atomic<bool> joined = false;
  std::thread watcher([&] {
    for (bool last = false; !last;) {
      last = joined;
      std::ifstream in("/proc/net/tcp");
      std::string line, number, local, remote, state;
      std::getline(in, line);
      while (std::getline(in, line)) {
        std::istringstream(line) >> number >> local >> remote >> state;
        if (state == "0A") seen.insert(local.substr(0, local.find(':')));
      }
    }
  });
  const auto group = make_process_group(options_from_env());
  joined = true;
  watcher.join();
  group->barrier()->wait();
  for (const std::string& address : seen) std::cout << address << "\n";
  return 0;
}

/// Sums that each depend on the one before, for at least `steps` * 5 ms. Prints the result.
int work(ProcessGroup& group, int steps) {
  std::cout << "ready" << std::endl;
  const Tensor sum = Tensor::zeros({4096}, DType::kF64);
  double* values = Tensor(sum).mutable_data<double>();
  for (int step = 0; step < steps; ++step) {
    for (int i = 0; i < 4096; ++i) {
      values[i] = std::sin(values[i] + i * 0.37 + step) * (group.rank() + 1);
    }
    group.all_reduce(sum)->wait();
    std::this_thread::sleep_for(milliseconds(5));
  }
  uint64_t hash = 0;
  for (int i = 0; i < 4096; ++i) hash = hash * 1099511628211u + std::bit_cast<uint64_t>(values[i]);
  std::cout << std::hex << hash << std::endl;
  return 0;
}

int run(const std::string& mode, const std::string& argument) {
  const int rank = launched() ? std::atoi(std::getenv("RANK")) : 0;
  if (mode == "exit") {  // rank 1 fails after the words, the others would stay
    if (rank != 1) sleep_forever();
    std::cerr << "some words\nthe last words" << std::endl;
    return std::atoi(argument.c_str());
  }
  if (mode == "kill") {
    if (rank != 1) sleep_forever();
    std::raise(SIGKILL);
  }
  if (mode == "victim") {  // rank 0 notices first, and ends first, what rank 1 has done
    if (rank == 0) std::cerr << "barrier(): a peer was lost or is late: ..." << std::endl;
    if (rank == 0) return 1;
    std::this_thread::sleep_for(milliseconds(50));
    std::cerr << "the cause" << std::endl;
    return 5;
  }
  if (mode == "stubborn") {  // ignores all that can be ignored
    for (int s : {SIGINT, SIGTERM, SIGHUP}) std::signal(s, SIG_IGN);
    write_pid(argument, rank);
    sleep_forever();
  }
  if (mode == "saving") {  // notes all signals; saves for a while once asked, and tells of it
    static std::atomic<int> noted{0};
    for (int s : {SIGTERM, SIGUSR1}) std::signal(s, [](int signal) { noted = signal; });
    write_pid(argument, rank);
    while (noted == 0) std::this_thread::sleep_for(milliseconds(5));
    std::this_thread::sleep_for(milliseconds(rank == 0 ? 1500 : 0));
    std::ofstream(argument + str("/saved", rank)) << "all of it";
    return 128 + noted;
  }
  if (mode == "environment") {
    for (const char* name :
         {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "OMP_NUM_THREADS"}) {
      const char* value = std::getenv(name);
      std::cout << name << "=" << (value ? value : "") << std::endl;
    }
    return 0;
  }
  if (mode == "self") {  // launches itself
    if (!launched()) return launch_self({.nproc = 2, .log_dir = "-"}, {"environment"});
  }
  if (mode == "threads") {  // the same with threads that could be given the launcher's signals
    for (int i = 0; i < 4; ++i) std::thread(sleep_forever).detach();
    return launch_self({.nproc = 2, .log_dir = "-", .stop_grace = milliseconds(700)},
                       {"stubborn", argument});
  }

  if (mode == "listeners") return print_listeners();
  const auto group = make_process_group(options_from_env());
  if (mode == "collectives") {
    testing::check_collectives_on(device_from_env(), *group);
    testing::check_ring_and_split_on(device_from_env(), *group);
    std::cout << "rank " << group->rank() << " of " << group->size() << " " << group->backend()
              << " is done" << std::endl;
    return 0;
  }
  if (mode == "work") return work(*group, std::atoi(argument.c_str()));
  if (mode == "short") {
    group->barrier()->wait();
    const Tensor one = Tensor::from<float>({1}, {1});
    group->all_reduce(one)->wait();
    return one.item() == group->size() ? 0 : 3;
  }
  if (mode == "mismatch") {
    group->all_reduce(Tensor::zeros({1000 + 1000 * (group->rank() % 2)}, DType::kF32))->wait();
    return 0;
  }
  if (mode == "reduce-until") {  // ... the last rank goes, in the way of the argument
    if (group->rank() == group->size() - 1) {
      std::thread([argument] {
        std::this_thread::sleep_for(milliseconds(200));
        if (argument == "stop") std::raise(SIGSTOP);
        if (argument == "exit") std::_Exit(0);
        std::raise(SIGKILL);
      }).detach();
    }
    auto start = std::chrono::steady_clock::now();
    try {
      for (;;) {
        start = std::chrono::steady_clock::now();
        const WorkPtr work =
            group->all_reduce(Tensor::zeros({1 << 20}, DType::kF32, device_from_env()));
        work->wait_host(std::chrono::hours(1));
      }
    } catch (const CommError& e) {
      const auto took = std::chrono::steady_clock::now() - start;
      std::cout << "failed after " << std::chrono::duration_cast<milliseconds>(took).count()
                << " ms" << std::endl;
      try {
        group->barrier();
      } catch (const CommError&) {
        throw Error(e.what());
      }
      throw Error("a later operation was taken");
    }
  }
  throw ArgumentError(str("rank_program: unknown mode '", mode, "'"));
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  try {
    return lockstep::run(argc > 1 ? argv[1] : "", argc > 2 ? argv[2] : "");
  } catch (const std::exception& e) {
    std::cerr << e.what() << std::endl;
    return 1;
  }
}
