#include "lockstep/distributed/comm/meeting_point.h"

#include "lockstep/base/error.h"
#include "lockstep/base/fnv.h"

#include <charconv>

namespace lockstep {
namespace {

// Below the ports that systems hand out by themselves (from 32768 on Linux).
constexpr uint64_t kFirstPort = 20'000, kPorts = 9'000;

constexpr const char* kHowToSet =
    "set MASTER_ADDR to rank 0's machine and MASTER_PORT to a free port there on every rank, or "
    "LOCKSTEP_INIT_METHOD to tcp://host:port, or to file:///path in a folder that all see";

uint16_t parse_port(const std::string& text, const std::string& what) {
  int port = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, port);
  check(
      error == std::errc() && stop == end && port >= 1 && port <= 65535, "rendezvous: ", what,
      " must be a port from 1 to 65535, got '", text,
      "'; start the program with `lockstep launch --nproc N -- program`, or set it on every rank");
  return static_cast<uint16_t>(port);
}

MeetingPoint parse(const std::string& method) {
  const auto wrong = [&] {
    return ArgumentError(
        str("init method: wanted env://, tcp://host:port or file:///path, got '", method, "'"));
  };
  if (method.starts_with("file://")) {
    const std::string path = method.substr(7);
    if (path.empty() || path[0] != '/' || path.back() == '/') throw wrong();
    return {.host = "", .file = path};
  }
  if (!method.starts_with("tcp://")) throw wrong();
  const std::string rest = method.substr(6);
  const size_t colon = rest.rfind(':');
  if (colon == rest.npos || colon == 0) throw wrong();
  std::string host = rest.substr(0, colon);
  if (host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);  // IPv6
  if (host.empty()) throw wrong();
  return {.host = host, .port = parse_port(rest.substr(colon + 1), "the port of " + method)};
}

bool says_something(const std::string& method) { return !method.empty() && method != "env://"; }

std::string host_by_launcher(const RankEnv& rank) {
  check(rank.starter != "environment", "rendezvous: MASTER_ADDR is not set; ", kHowToSet,
        "; `lockstep launch --nproc N -- program` does it all on one machine");
  if (rank.local_size == rank.world_size) return "127.0.0.1";
  check(!rank.first_host.empty(), "rendezvous: ", rank.world_size, " ranks of ", rank.starter,
        " are on several machines, and nothing says where rank 0 is; ", kHowToSet);
  return rank.first_host;
}

}  // namespace

uint16_t port_of_job(const std::string& job) {
  const uint64_t hash = fnv1a(job);
  return static_cast<uint16_t>(kFirstPort + (hash ^ (hash >> 32)) % kPorts);
}

MeetingPoint meeting_point(const RankEnv& rank, const Environment& env,
                           const std::string& init_method) {
  if (says_something(init_method)) return parse(init_method);
  const auto address = env("MASTER_ADDR");
  const std::string other = env("LOCKSTEP_INIT_METHOD").value_or("");
  if (!address && says_something(other)) return parse(other);

  MeetingPoint at{.host = address ? *address : host_by_launcher(rank)};
  if (const auto port = env("MASTER_PORT"); port && !master_port_is_taken_by_torchrun(env)) {
    at.port = parse_port(*port, "MASTER_PORT");
  } else {
    check(!rank.job.empty(), "rendezvous: MASTER_PORT is not set; ", kHowToSet,
          "; `lockstep launch --nproc N -- program` does it all on one machine");
    at.port = port_of_job(rank.job);
  }
  return at;
}

}  // namespace lockstep
