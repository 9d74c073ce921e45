#include "lockstep/distributed/comm/rank_place.h"

#include "lockstep/base/error.h"
#include "lockstep/distributed/comm/interface.h"

#include <sched.h>

#include <algorithm>
#include <set>
#include <vector>

namespace lockstep {

std::string describe(const RankPlace& place) {
  if (place.address.empty() || comm::is_loopback(place.address)) return "";
  const std::string where =
      place.interface.empty() ? place.address : place.interface + " " + place.address;
  return place.hosts == 1 ? where : str(place.hosts, " hosts, ", where);
}

namespace comm {
namespace {

bool has(const std::string& processors, size_t i) {
  if (i / 4 >= processors.size()) return false;
  const char digit = processors[i / 4];
  const int value = digit <= '9' ? digit - '0' : digit - 'a' + 10;
  return (value >> (i % 4) & 1) != 0;
}

int fair_threads(const Seat& own, const std::vector<Seat>& here) {
  double share = 0;
  for (size_t i = 0; i < own.processors.size() * 4; ++i) {
    if (!has(own.processors, i)) continue;
    share += 1.0 / static_cast<double>(std::count_if(here.begin(), here.end(), [i](const Seat& s) {
               return has(s.processors, i);
             }));
  }
  return std::max(1, static_cast<int>(share + 1e-6));  // three thirds are one
}

}  // namespace

Seat own_seat(const std::string& address) {
  Seat seat{.address = address, .processors = ""};
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (::sched_getaffinity(0, sizeof mask, &mask) != 0) CPU_SET(0, &mask);
  int last = 0;
  for (int i = 0; i < CPU_SETSIZE; ++i) last = CPU_ISSET(i, &mask) ? i : last;
  for (int i = 0; i <= last; i += 4) {
    int value = 0;
    for (int bit = 0; bit < 4; ++bit) value |= CPU_ISSET(i + bit, &mask) ? 1 << bit : 0;
    seat.processors += "0123456789abcdef"[value];
  }
  return seat;
}

RankPlace find_place(Store& store, const Seat& own, int rank, int world_size,
                     std::chrono::milliseconds timeout) {
  store.set(str("seat/", rank), own.address + " " + own.processors);
  std::set<std::string> addresses;
  std::vector<Seat> here;
  for (int r = 0; r < world_size; ++r) {
    const std::string text = store.get(str("seat/", r), timeout);
    const size_t space = text.find(' ');
    const Seat seat{text.substr(0, space), space == text.npos ? "" : text.substr(space + 1)};
    addresses.insert(seat.address);
    if (seat.address == own.address) here.push_back(seat);
  }
  return {.hosts = static_cast<int>(addresses.size()),
          .local_size = static_cast<int>(here.size()),
          .address = own.address,
          .interface = interface_with_address(own.address),
          .threads = fair_threads(own, here)};
}

RankPlace place_alone() {
  const Seat own = own_seat("");
  return {.address = "", .interface = "", .threads = fair_threads(own, {own})};
}

}  // namespace comm
}  // namespace lockstep
