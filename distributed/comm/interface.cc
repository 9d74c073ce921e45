#include "lockstep/distributed/comm/interface.h"

#include "lockstep/base/error.h"
#include "lockstep/distributed/comm/socket.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>

#include <memory>

namespace lockstep::comm {
namespace {

// Reserved for documentation, so that nobody has it: only the default route leads there.
constexpr const char* kElsewhere = "203.0.113.1";

std::string numeric(const sockaddr& address) {
  char text[NI_MAXHOST];
  const socklen_t size = address.sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  if (getnameinfo(&address, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) return "";
  return text;
}

bool link_local(const sockaddr& address) {
  if (address.sa_family != AF_INET6) return false;
  return IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
}

bool is_numeric(const std::string& text) {
  in6_addr parsed{};
  return inet_pton(AF_INET, text.c_str(), &parsed) == 1 ||
         inet_pton(AF_INET6, text.c_str(), &parsed) == 1;
}

}  // namespace

std::vector<Interface> interfaces() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, &freeifaddrs);
  std::vector<Interface> found;
  for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || (i->ifa_flags & IFF_UP) == 0) continue;
    const int family = i->ifa_addr->sa_family;
    if ((family != AF_INET && family != AF_INET6) || link_local(*i->ifa_addr)) continue;
    found.push_back({.name = i->ifa_name,
                     .address = numeric(*i->ifa_addr),
                     .loopback = (i->ifa_flags & IFF_LOOPBACK) != 0});
  }
  return found;
}

std::string address_of_interface(const std::string& text) {
  std::string there;
  for (const Interface& i : interfaces()) {
    if (i.name == text || i.address == text) return i.address;
    there += str(there.empty() ? "" : ", ", i.name, " ", i.address);
  }
  throw ArgumentError(
      str("interface: wanted the name or the address of an interface that is up, "
          "got '",
          text, "'; this machine has ", there.empty() ? "none" : there));
}

std::string interface_with_address(const std::string& address) {
  for (const Interface& i : interfaces()) {
    if (i.address == address) return i.name;
  }
  return "";
}

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1";
}

std::string outward_address() {
  try {
    return local_address_towards(kElsewhere);
  } catch (const CommError&) {  // no default route
    for (const Interface& i : interfaces()) {
      if (!i.loopback) return i.address;
    }
    return "127.0.0.1";
  }
}

std::string address_for_all(const std::string& master_addr, const std::string& own) {
  if (is_numeric(master_addr) || master_addr == "localhost") return master_addr;
  if (!is_loopback(resolved_address(master_addr))) return master_addr;
  return own.empty() ? outward_address() : own;
}

}  // namespace lockstep::comm
