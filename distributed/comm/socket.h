// TCP sockets with deadlines. Descriptors are non-blocking, closed on exec, and raise no SIGPIPE.
// Everything throws CommError that names the address.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep::comm {

using Deadline = std::chrono::steady_clock::time_point;

class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Socket& operator=(Socket&& other) noexcept;
  ~Socket() { close(); }

  int fd() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  void close();

 private:
  int fd_ = -1;
};

/// Listens on this address only; port 0 lets the system choose. A port in use is named with what to
/// do.
Socket listen_on(const std::string& host, uint16_t port);
/// Takes a port without listening: it is given to nobody else, yet listen_on() may use it while
/// this is held.
Socket reserve_port(const std::string& host, uint16_t port);
uint16_t port_of(const Socket& socket);

/// Tries until someone listens or the deadline has passed; StoreClosed if nobody does. With
/// `may_start` false, the first refusal is the answer.
Socket connect_to(const std::string& host, uint16_t port, Deadline deadline, bool may_start = true);

void send_all(const Socket& socket, std::string_view bytes, Deadline deadline);
/// Appends what has arrived, at least one byte; throws if the peer has closed the connection.
void receive_some(const Socket& socket, std::string& bytes, Deadline deadline);

/// The numeric address that a name stands for on this machine, the first one.
std::string resolved_address(const std::string& host);

/// The address by which this machine reaches `host`: what peers can reach this machine by.
std::string local_address_towards(const std::string& host);

}  // namespace lockstep::comm
