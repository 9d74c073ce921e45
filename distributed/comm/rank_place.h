// Which ranks share a machine, and what of it each of them has.
#pragma once

#include "lockstep/distributed/comm/store.h"

#include <string>

namespace lockstep {

struct RankPlace {
  int hosts = 1;          // machines with ranks, counted by their addresses
  int local_size = 1;     // ranks of this machine
  std::string address;    // this rank's own, numeric; empty: a process alone
  std::string interface;  // its name, such as "eth0"
  /// Compute threads that each rank here can have: of the processors that this process may run on,
  /// its share with the ranks that may run on them, too, and 1 at least.
  int threads = 1;
};

/// "2 hosts, eth0 10.0.0.1", or what of it says more than that all is on one machine by loopback.
std::string describe(const RankPlace& place);

namespace comm {

/// What a rank tells the others: its address and the processors that it may run on, four in each
/// hexadecimal digit, the first in the lowest bit.
struct Seat {
  std::string address;
  std::string processors;
};

Seat own_seat(const std::string& address);

/// Collective over the ranks that share `store`. Throws CommError if one does not answer.
RankPlace find_place(Store& store, const Seat& own, int rank, int world_size,
                     std::chrono::milliseconds timeout);

/// The same for a process alone.
RankPlace place_alone();

}  // namespace comm
}  // namespace lockstep
