#include "lockstep/distributed/comm/store_server.h"

#include "lockstep/base/error.h"
#include "lockstep/base/thread_signals.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <vector>

namespace lockstep::comm {
namespace {

using std::chrono::steady_clock;
using Kind = StoreFrame::Kind;

constexpr StoreFrameLimits kHelloLimits{.max_key = 0, .max_value = 256};
constexpr size_t kReadSize = 65536;

}  // namespace

bool equal_in_constant_time(std::string_view given, std::string_view secret) {
  unsigned char difference = given.size() == secret.size() && !secret.empty() ? 0 : 1;
  for (size_t i = 0; i < given.size(); ++i) {
    const char s = secret.empty() ? '\0' : secret[i % secret.size()];
    difference = static_cast<unsigned char>(difference | (given[i] ^ s));
  }
  return difference == 0;
}

StoreServer::StoreServer(StoreServerOptions options)
    : options_(std::move(options)),
      listener_(listen_on(options_.host, options_.port)),
      port_(port_of(listener_)),
      wake_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  check(!options_.token.empty() && options_.token.size() <= kHelloLimits.max_value,
        "tcp store: the token must have 1 to ", kHelloLimits.max_value, " bytes, got ",
        options_.token.size());
  if (!wake_.valid()) throw CommError(str("tcp store: eventfd: ", std::strerror(errno)));
  thread_ = thread_without_signals([this] { loop(); });
}

StoreServer::~StoreServer() {
  const uint64_t one = 1;
  while (::write(wake_.fd(), &one, sizeof one) < 0 && errno == EINTR) {
  }
  thread_.join();
}

void StoreServer::loop() {
  std::vector<pollfd> fds;
  std::vector<std::list<Connection>::iterator> owners;
  for (;;) {
    fds.assign({{wake_.fd(), POLLIN, 0}, {listener_.fd(), POLLIN, 0}});
    owners.clear();
    for (auto c = connections_.begin(); c != connections_.end(); ++c) {
      short events = POLLRDHUP;
      // One request at a time: what comes after it stays in the kernel, and the peer has to wait.
      if (!c->waiting && !c->closing && c->out.empty()) events |= POLLIN;
      if (!c->out.empty()) events |= POLLOUT;
      fds.push_back({c->socket.fd(), events, 0});
      owners.push_back(c);
    }
    if (::poll(fds.data(), fds.size(), poll_timeout()) < 0 && errno != EINTR) return;
    if (fds[0].revents != 0) return;
    for (size_t i = 0; i < owners.size(); ++i) {
      Connection& c = *owners[i];
      const short got = fds[i + 2].revents;
      bool open = (got & (POLLERR | POLLNVAL)) == 0;
      if (open && (got & POLLIN) != 0) open = read(c);
      if (open && (got & POLLOUT) != 0) open = flush(c);
      if (open && (got & (POLLRDHUP | POLLHUP)) != 0 && (got & POLLIN) == 0) open = false;
      if (!open) drop(owners[i]);
    }
    if (fds[1].revents != 0) accept_some();
    check_deadlines();
  }
}

void StoreServer::accept_some() {
  // Not all that strangers may have: a rank among them is read from before others push it out.
  for (size_t n = 0; n <= options_.max_strangers / 2; ++n) {
    Socket socket(::accept4(listener_.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.valid()) {
      // Out of descriptors: the loop would come back at once, for the connection is still there.
      if (errno == EMFILE || errno == ENFILE) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
      return;
    }
    const size_t strangers = connections_.size() - static_cast<size_t>(clients_.load());
    if (strangers >= options_.max_strangers || connections_.size() >= options_.max_connections) {
      const auto stranger = std::find_if(connections_.begin(), connections_.end(),
                                         [](const Connection& c) { return !c.known; });
      if (stranger == connections_.end()) continue;  // full of ranks: the new one is closed
      drop(stranger);
    }
    Connection& c = connections_.emplace_back();
    c.socket = std::move(socket);
    c.hello_by = steady_clock::now() + options_.hello_timeout;
  }
}

bool StoreServer::read(Connection& c) {
  char buffer[kReadSize];
  // A stranger gets no more memory than one hello needs.
  const size_t wanted = c.known ? sizeof buffer : 512 - std::min<size_t>(c.in.size(), 511);
  const ssize_t n = ::recv(c.socket.fd(), buffer, wanted, 0);
  if (n == 0) return false;
  if (n < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
  c.in.append(buffer, static_cast<size_t>(n));
  parse(c);
  return flush(c);
}

bool StoreServer::flush(Connection& c) {
  while (!c.out.empty()) {
    const ssize_t n = ::send(c.socket.fd(), c.out.data(), c.out.size(), MSG_NOSIGNAL);
    if (n < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
    c.out.erase(0, static_cast<size_t>(n));
    if (c.out.empty() && !c.closing) parse(c);  // what came meanwhile
  }
  return !c.closing;
}

void StoreServer::parse(Connection& c) {
  while (!c.waiting && !c.closing && c.out.empty()) {
    StoreParse p = parse_store_frame(c.in, c.known ? options_.limits : kHelloLimits);
    if (p.status == StoreParse::Status::kNeedMore) return;
    if (p.status == StoreParse::Status::kMalformed) {
      return refuse(c, c.known ? p.error : "wanted a token");
    }
    c.in.erase(0, p.consumed);
    handle(c, std::move(p.frame));
  }
}

void StoreServer::handle(Connection& c, StoreFrame frame) {
  if (!c.known) return handle_hello(c, frame);
  if (frame.key.empty()) return refuse(c, "the key is empty");
  switch (frame.kind) {
    case Kind::kSet:
      return handle_set(c, frame);
    case Kind::kGet: {
      const auto found = table_.find(frame.key);
      if (found != table_.end()) return reply(c, {.kind = Kind::kOk, .value = found->second});
      if (frame.number <= 0) return reply(c, {.kind = Kind::kTimeout});
      c.waiting = true;
      c.awaited = std::move(frame.key);
      // A day at most, so that the sum with the clock cannot overflow.
      c.wait_until = steady_clock::now() +
                     std::chrono::milliseconds(std::min<int64_t>(frame.number, 86'400'000));
      return;
    }
    case Kind::kAdd:
      return handle_add(c, frame);
    case Kind::kDelete: {
      const auto found = table_.find(frame.key);
      if (found == table_.end()) return reply(c, {.kind = Kind::kOk, .number = 0});
      table_bytes_ -= found->first.size() + found->second.size();
      table_.erase(found);
      return reply(c, {.kind = Kind::kOk, .number = 1});
    }
    default:
      return refuse(c, "not a request");
  }
}

void StoreServer::handle_hello(Connection& c, const StoreFrame& frame) {
  if (frame.kind != Kind::kHello || !equal_in_constant_time(frame.value, options_.token)) {
    return refuse(c, "wrong token");
  }
  c.known = true;
  c.rank = frame.number;
  clients_.fetch_add(1);
  reply(c, {.kind = Kind::kOk});
}

void StoreServer::handle_set(Connection& c, StoreFrame& frame) {
  if (!put(frame.key, std::move(frame.value))) return refuse(c, "the store is full");
  reply(c, {.kind = Kind::kOk});
}

void StoreServer::handle_add(Connection& c, const StoreFrame& frame) {
  int64_t count = 0;
  if (const auto found = table_.find(frame.key); found != table_.end()) {
    const std::string& text = found->second;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
    if (error != std::errc() || end != text.data() + text.size()) {
      return refuse(c, "the key holds no counter");
    }
  }
  if (__builtin_add_overflow(count, frame.number, &count)) {
    return refuse(c, "the counter overflows");
  }
  if (!put(frame.key, std::to_string(count))) return refuse(c, "the store is full");
  reply(c, {.kind = Kind::kOk, .number = count});
}

bool StoreServer::put(const std::string& key, std::string value) {
  const auto found = table_.find(key);
  const size_t before = found == table_.end() ? 0 : key.size() + found->second.size();
  const size_t after = table_bytes_ - before + key.size() + value.size();
  if (after > options_.max_bytes) return false;
  table_bytes_ = after;
  std::string& stored = table_[key];
  stored = std::move(value);
  for (Connection& other : connections_) {
    if (!other.waiting || other.awaited != key) continue;
    other.waiting = false;
    reply(other, {.kind = Kind::kOk, .value = stored});
  }
  return true;
}

/// Sending is left to the loop, which may be walking the connections now.
void StoreServer::reply(Connection& c, StoreFrame frame) { c.out += encode_store_frame(frame); }

void StoreServer::refuse(Connection& c, std::string why) {
  reply(c, {.kind = Kind::kRefused, .value = std::move(why)});
  c.in.clear();
  c.closing = true;
}

void StoreServer::drop(std::list<Connection>::iterator connection) {
  const bool known = connection->known;
  const int64_t rank = connection->rank;
  connections_.erase(connection);
  if (!known) return;
  clients_.fetch_sub(1);
  const auto same = [rank](const Connection& c) { return c.known && c.rank == rank; };
  if (rank >= 0 && std::none_of(connections_.begin(), connections_.end(), same)) note_gone(rank);
}

void StoreServer::note_gone(int64_t rank) {
  const auto found = table_.find(options_.gone_key);
  const std::string before = found == table_.end() ? "" : found->second + ", ";
  put(options_.gone_key, before + std::to_string(rank));
}

int StoreServer::poll_timeout() const {
  std::optional<Deadline> first;
  for (const Connection& c : connections_) {
    if (c.known && !c.waiting) continue;
    const Deadline deadline = c.known ? c.wait_until : c.hello_by;
    if (!first || deadline < *first) first = deadline;
  }
  if (!first) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*first - steady_clock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 60'000));
}

void StoreServer::check_deadlines() {
  const Deadline now = steady_clock::now();
  for (auto c = connections_.begin(); c != connections_.end();) {
    const auto next = std::next(c);
    if (!c->known && now >= c->hello_by) {
      drop(c);
    } else if (c->waiting && now >= c->wait_until) {
      c->waiting = false;
      reply(*c, {.kind = Kind::kTimeout});
    }
    c = next;
  }
}

}  // namespace lockstep::comm
