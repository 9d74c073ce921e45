// This machine's network interfaces, and by which of them others reach it.
#pragma once

#include <string>
#include <vector>

namespace lockstep::comm {

struct Interface {
  std::string name;     // "eth0"
  std::string address;  // numeric, IPv4 or IPv6 that is not link-local
  bool loopback = false;
};

/// Those that are up, one entry for each address.
std::vector<Interface> interfaces();

/// The address of the interface that `text` names, or `text` itself if it is the address of one.
/// Throws ArgumentError that lists the interfaces there are.
std::string address_of_interface(const std::string& text);

/// The name of the interface with this address; empty: none has it.
std::string interface_with_address(const std::string& address);

/// Whether a numeric address is 127.x.y.z or ::1.
bool is_loopback(const std::string& address);

/// The address by which others most likely reach this machine: that of the default route, else of
/// the first interface that is no loopback, else 127.0.0.1.
std::string outward_address();

/// Where to reach rank 0 of a job on several machines by `master_addr`. Its own machine may map its
/// name to 127.0.1.1, where nobody else gets to: then, for that name, it is `own` if given, else
/// outward_address(). Throws CommError if the name is unknown.
std::string address_for_all(const std::string& master_addr, const std::string& own);

}  // namespace lockstep::comm
