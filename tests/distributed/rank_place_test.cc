#include "lockstep/distributed/comm/rank_place.h"

#include "lockstep/base/error.h"
#include "lockstep/distributed/comm/interface.h"
#include "lockstep/distributed/comm/socket.h"
#include "lockstep/distributed/comm/tcp_store.h"

#include <doctest/doctest.h>
#include <sched.h>
#include <unistd.h>

#include <thread>
#include <vector>

namespace lockstep {
namespace {

using comm::Seat;
using std::chrono::milliseconds;

/// The place of each rank.
std::vector<RankPlace> places(const std::vector<Seat>& seats) {
  TcpStore server({.serve = true, .token = "t"});
  std::vector<RankPlace> found(seats.size());
  std::vector<std::thread> ranks;
  for (size_t r = 0; r < seats.size(); ++r) {
    ranks.emplace_back([&, r] {
      TcpStore store({.port = server.port(), .token = "t"});
      found[r] = comm::find_place(store, seats[r], static_cast<int>(r),
                                  static_cast<int>(seats.size()), milliseconds(10'000));
    });
  }
  for (std::thread& rank : ranks) rank.join();
  return found;
}

TEST_CASE("find_place: hosts, and the threads of ranks that share processors") {
  // Host a: eight processors for two ranks that may run on all. Host b: a rank bound to the first
  // two, one bound to the next three, one on none that it has told.
  const auto found = places({{"10.0.0.1", "ff"},
                             {"10.0.0.1", "ff"},
                             {"10.0.0.2", "3"},
                             {"10.0.0.2", "c1"},
                             {"10.0.0.2", ""}});
  for (const RankPlace& place : found) CHECK(place.hosts == 2);
  CHECK(found[0].local_size == 2);
  CHECK(found[4].local_size == 3);
  CHECK(found[0].threads == 4);
  CHECK(found[1].threads == 4);
  CHECK(found[2].threads == 2);
  CHECK(found[3].threads == 3);
  CHECK(found[4].threads == 1);
}

TEST_CASE("find_place: more ranks than processors, shares that are fractions") {
  for (const RankPlace& place : places({{"h", "3"}, {"h", "3"}, {"h", "3"}})) {
    CHECK(place.threads == 1);
  }
  for (const RankPlace& place : places({{"h", "7"}, {"h", "7"}, {"h", "7"}})) {
    CHECK(place.threads == 1);  // three thirds
  }
  CHECK(places({{"h", "f"}, {"h", "3"}})[0].threads == 3);
}

TEST_CASE("place_alone: the processors that the process may run on") {
  cpu_set_t before, one;
  REQUIRE(::sched_getaffinity(0, sizeof before, &before) == 0);
  CHECK(comm::place_alone().threads == CPU_COUNT(&before));
  CHECK(describe(comm::place_alone()) == "");
  int last = 0;
  for (int i = 0; i < CPU_SETSIZE; ++i) last = CPU_ISSET(i, &before) ? i : last;
  CPU_ZERO(&one);
  CPU_SET(last, &one);
  REQUIRE(::sched_setaffinity(0, sizeof one, &one) == 0);
  CHECK(comm::place_alone().threads == 1);
  const std::string processors = comm::own_seat("").processors;
  CHECK(processors == std::string(static_cast<size_t>(last / 4), '0') + "1248"[last % 4]);
  ::sched_setaffinity(0, sizeof before, &before);
}

TEST_CASE("describe: nothing for a job by loopback, else hosts and interface") {
  CHECK(describe({.hosts = 1, .address = "127.0.0.1", .interface = "lo"}) == "");
  CHECK(describe({.hosts = 2, .address = "10.0.0.1", .interface = "eth0"}) ==
        "2 hosts, eth0 10.0.0.1");
  CHECK(describe({.hosts = 1, .address = "10.0.0.1", .interface = ""}) == "10.0.0.1");
}

TEST_CASE("interfaces: by name, by address, and those that are not there") {
  CHECK(comm::address_of_interface("lo") == "127.0.0.1");
  CHECK(comm::address_of_interface("127.0.0.1") == "127.0.0.1");
  CHECK(comm::interface_with_address("127.0.0.1") == "lo");
  CHECK(comm::interface_with_address("203.0.113.7") == "");
  try {
    comm::address_of_interface("eth77");
    FAIL("an interface that is not there");
  } catch (const ArgumentError& e) {
    const std::string message = e.what();
    CHECK(message.find("got 'eth77'; this machine has ") != message.npos);
    CHECK(message.find("lo 127.0.0.1") != message.npos);
  }
}

TEST_CASE("address_for_all: a machine's own name that leads to loopback") {
  CHECK(comm::address_for_all("127.0.0.1", "") == "127.0.0.1");
  CHECK(comm::address_for_all("::1", "") == "::1");
  CHECK(comm::address_for_all("localhost", "") == "localhost");
  CHECK(comm::address_for_all("10.1.2.3", "10.0.0.9") == "10.1.2.3");
  // A name that leads to loopback: tests/examples/two_hosts_test.cc has one everywhere.
  char name[256] = "";
  REQUIRE(::gethostname(name, sizeof name - 1) == 0);
  if (comm::is_loopback(comm::resolved_address(name))) {
    CHECK(comm::address_for_all(name, "10.0.0.9") == "10.0.0.9");
    CHECK(comm::address_for_all(name, "") == comm::outward_address());
  }
}

}  // namespace
}  // namespace lockstep
