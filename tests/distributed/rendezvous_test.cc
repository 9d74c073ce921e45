#include "lockstep/distributed/comm/rendezvous.h"
#include "lockstep/base/error.h"
#include "lockstep/distributed/comm/make_process_group.h"
#include "lockstep/distributed/comm/tcp_store.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <thread>

namespace lockstep {
namespace {

using std::chrono::milliseconds;

using Variables = std::map<std::string, std::string>;

void set_environment(const Variables& variables) {
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"}) {
    unsetenv(name);
  }
  for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
}

std::string message_of(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

const Variables kGood = {{"RANK", "1"},
                         {"WORLD_SIZE", "3"},
                         {"LOCAL_RANK", "0"},
                         {"MASTER_ADDR", "localhost"},
                         {"MASTER_PORT", "29500"}};

/// Errors of ranks that join as threads, each with its own (rank, world size). None leaves before
/// all have come, or a late one would find no store. Rank 0 is the first, if it is there.
std::vector<std::string> join(const std::vector<std::pair<int, int>>& ranks,
                              milliseconds timeout = milliseconds(5000)) {
  const uint16_t port = TcpStore({.serve = true, .token = "t"}).port();
  std::vector<std::string> errors(ranks.size());
  std::vector<std::shared_ptr<Store>> stores(ranks.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < ranks.size(); ++i) {
    threads.emplace_back([&, i] {
      const auto [rank, size] = ranks[i];
      const RankInfo info{rank, size, "127.0.0.1", port};
      errors[i] = message_of([&] { stores[i] = join_store(info, "t", timeout); });
    });
  }
  for (auto& thread : threads) thread.join();
  while (!stores.empty()) stores.pop_back();  // rank 0, who serves the others, is the last to leave
  return errors;
}

TEST_CASE("join_store: all come") {
  for (const std::string& error : join({{0, 3}, {1, 3}, {2, 3}})) CHECK(error == "");
}

TEST_CASE("join_store: ranks that do not come are named") {
  auto errors = join({{0, 4}, {2, 4}}, milliseconds(200));
  for (const std::string& error : errors) {
    CHECK(contains(error, "of 4 ranks these did not come to 127.0.0.1"));
    CHECK(contains(error, "within 200 ms: 1, 3"));
  }
  errors = join({{1, 2}}, milliseconds(100));
  CHECK(contains(errors[0], "cannot reach rank 0's store"));
}

TEST_CASE("join_store: ranks that contradict each other") {
  auto errors = join({{0, 2}, {1, 3}}, milliseconds(2000));
  CHECK(contains(errors[0], "WORLD_SIZE is 2 on rank 0 but 3 on rank 1"));
  CHECK(contains(errors[1], "WORLD_SIZE is 3 on rank 1 but 2 on rank 0"));
  errors = join({{0, 2}, {1, 2}, {1, 2}});
  CHECK(errors[0] == "");
  CHECK(contains(errors[1] + errors[2], "two processes have RANK 1"));
}

TEST_CASE("make_process_group: the backends") {
  set_environment({});
  CHECK(std::string(make_process_group()->backend()) == "single");
  CHECK(contains(message_of([] { make_process_group({.backend = "mpi"}); }),
                 "wanted the backend auto, gloo, nccl or single, got 'mpi'"));
  CHECK(contains(message_of([] { make_process_group({.backend = "gloo"}); }),
                 "RANK and WORLD_SIZE are not set"));
  CHECK(contains(message_of([] { make_process_group({.backend = "nccl"}); }),
                 "RANK and WORLD_SIZE are not set"));
  // Whoever says how the ranks meet does not mean to be alone; the one process of mpirun may be.
  for (const ProcessGroupOptions& options :
       {ProcessGroupOptions{.init_method = "tcp://a:1"}, ProcessGroupOptions{.interface = "lo"}}) {
    const std::string message = message_of([&] { make_process_group(options); });
    CHECK_MESSAGE(contains(message, "wanted RANK and WORLD_SIZE beside "), message);
    setenv("OMPI_COMM_WORLD_RANK", "0", 1);
    setenv("OMPI_COMM_WORLD_SIZE", "1", 1);
    CHECK(std::string(make_process_group(options)->backend()) == "single");
    unsetenv("OMPI_COMM_WORLD_RANK");
    unsetenv("OMPI_COMM_WORLD_SIZE");
  }
  set_environment(kGood);
  CHECK(contains(message_of([] { make_process_group({.backend = "single"}); }), "WORLD_SIZE is 3"));
  const uint16_t port = TcpStore({.serve = true, .token = "t"}).port();
  set_environment({{"RANK", "0"},
                   {"WORLD_SIZE", "1"},
                   {"MASTER_ADDR", "127.0.0.1"},
                   {"MASTER_PORT", std::to_string(port)}});
  setenv("LOCKSTEP_TOKEN", "t", 1);
  const auto group = make_process_group();
  CHECK(std::string(group->backend()) == "gloo");
  CHECK(group->size() == 1);
  group->barrier()->wait();
  set_environment({});
}

}  // namespace
}  // namespace lockstep
