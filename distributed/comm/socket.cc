#include "lockstep/distributed/comm/socket.h"

#include "lockstep/distributed/comm/store.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>

namespace lockstep::comm {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

AddressList resolve(const std::string& host, uint16_t port, int type) {
  addrinfo hints{};
  hints.ai_socktype = type;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int rc = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (rc != 0) {
    throw CommError(str("tcp store: cannot resolve the address '", host, "': ", gai_strerror(rc),
                        "; check MASTER_ADDR"));
  }
  return {list, &freeaddrinfo};
}

/// Whether `events` came before the deadline.
bool poll_until(int fd, short events, Deadline deadline) {
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now())
            .count();
    pollfd p{fd, events, 0};
    const int rc = ::poll(&p, 1, static_cast<int>(std::clamp<int64_t>(left, 0, 1'000'000)));
    if (rc > 0) return true;
    if (rc == 0 && left <= 0) return false;
    if (rc < 0 && errno != EINTR) throw CommError(str("tcp store: poll: ", std::strerror(errno)));
  }
}

/// 0, or the errno of the attempt.
int try_connect(const addrinfo& address, Deadline deadline, Socket& socket) {
  socket = Socket(::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return errno;
  if (::connect(socket.fd(), address.ai_addr, address.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return errno;
    if (!poll_until(socket.fd(), POLLOUT, deadline)) return ETIMEDOUT;
    int error = 0;
    socklen_t size = sizeof error;
    if (getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) return errno;
    if (error != 0) return error;
  }
  // A client that dials an ephemeral port of its own machine can be connected to itself.
  sockaddr_storage self{};
  sockaddr_storage peer{};
  socklen_t self_size = sizeof self;
  socklen_t peer_size = sizeof peer;
  getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&self), &self_size);
  getpeername(socket.fd(), reinterpret_cast<sockaddr*>(&peer), &peer_size);
  if (self_size == peer_size && std::memcmp(&self, &peer, self_size) == 0) return ECONNREFUSED;
  const int on = 1;
  setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return 0;
}

[[noreturn]] void refuse_to_listen(const std::string& host, uint16_t port) {
  const int error = errno;
  if (error == EADDRINUSE) {
    throw CommError(str("tcp store: the port ", host, ":", port,
                        " is in use (another job?); set MASTER_PORT (--master-port) to a free "
                        "one"));
  }
  throw CommError(str("tcp store: cannot listen on ", host, ":", port, ": ", std::strerror(error),
                      "; MASTER_ADDR must be an address of rank 0's machine"));
}

}  // namespace

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

void Socket::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

Socket reserve_port(const std::string& host, uint16_t port) {
  const AddressList list = resolve(host, port, SOCK_STREAM);
  Socket socket(::socket(list->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int on = 1;
  // The port of a job that has just ended may be taken again; two listeners are refused all the
  // same.
  setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(socket.fd(), list->ai_addr, list->ai_addrlen) != 0) refuse_to_listen(host, port);
  return socket;
}

Socket listen_on(const std::string& host, uint16_t port) {
  Socket socket = reserve_port(host, port);
  if (::listen(socket.fd(), SOMAXCONN) != 0) refuse_to_listen(host, port);
  return socket;
}

uint16_t port_of(const Socket& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    throw CommError(str("tcp store: getsockname: ", std::strerror(errno)));
  }
  if (address.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
  }
  return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

Socket connect_to(const std::string& host, uint16_t port, Deadline deadline, bool may_start) {
  const AddressList list = resolve(host, port, SOCK_STREAM);
  for (;;) {
    int error = 0;
    for (const addrinfo* a = list.get(); a != nullptr; a = a->ai_next) {
      Socket socket;
      error = try_connect(*a, deadline, socket);
      if (error == 0) return socket;
    }
    const bool refused = error == ECONNREFUSED;
    if (std::chrono::steady_clock::now() >= deadline || (refused && !may_start)) {
      const std::string why = str(
          "tcp store: cannot reach rank 0's store at ", host, ":", port, ": ", std::strerror(error),
          "; is rank 0 running, and are MASTER_ADDR and MASTER_PORT the same on all ranks?");
      if (refused) throw StoreClosed(why);
      throw CommError(why);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

void send_all(const Socket& socket, std::string_view bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(socket.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n > 0) {
      bytes.remove_prefix(static_cast<size_t>(n));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!poll_until(socket.fd(), POLLOUT, deadline)) {
        throw CommError("tcp store: the store takes no more bytes (deadline passed)");
      }
    } else if (errno != EINTR) {
      throw StoreClosed(str("tcp store: the connection was closed: ", std::strerror(errno)));
    }
  }
}

void receive_some(const Socket& socket, std::string& bytes, Deadline deadline) {
  char buffer[16384];
  for (;;) {
    const ssize_t n = ::recv(socket.fd(), buffer, sizeof buffer, 0);
    if (n > 0) {
      bytes.append(buffer, static_cast<size_t>(n));
      return;
    }
    if (n == 0)
      throw StoreClosed("tcp store: the connection was closed; rank 0 has probably ended");
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!poll_until(socket.fd(), POLLIN, deadline)) {
        throw CommError(
            "tcp store: no answer (deadline passed); rank 0 is stuck, or MASTER_PORT belongs to "
            "another program");
      }
    } else if (errno != EINTR) {
      throw StoreClosed(str("tcp store: the connection was closed: ", std::strerror(errno),
                            "; rank 0 has probably ended"));
    }
  }
}

std::string resolved_address(const std::string& host) {
  const AddressList list = resolve(host, 0, SOCK_STREAM);
  char text[NI_MAXHOST];
  const int rc =
      getnameinfo(list->ai_addr, list->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  if (rc != 0) throw CommError(str("tcp store: the address of '", host, "': ", gai_strerror(rc)));
  return text;
}

std::string local_address_towards(const std::string& host) {
  const AddressList list = resolve(host, 9, SOCK_DGRAM);
  const Socket socket(::socket(list->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage self{};
  socklen_t size = sizeof self;
  char text[NI_MAXHOST];
  // Connecting a datagram socket sends nothing: it asks the routing table.
  if (::connect(socket.fd(), list->ai_addr, list->ai_addrlen) != 0 ||
      getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&self), &size) != 0 ||
      getnameinfo(reinterpret_cast<sockaddr*>(&self), size, text, sizeof text, nullptr, 0,
                  NI_NUMERICHOST) != 0) {
    throw CommError(str("process group: no route to ", host, ": ", std::strerror(errno)));
  }
  return text;
}

}  // namespace lockstep::comm
