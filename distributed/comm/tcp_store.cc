#include "lockstep/distributed/comm/tcp_store.h"

#include "lockstep/base/error.h"
#include "lockstep/distributed/comm/store_server.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

namespace lockstep {
namespace {

using comm::Deadline;
using comm::Socket;
using comm::StoreFrame;
using comm::StoreParse;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using Kind = StoreFrame::Kind;

constexpr comm::StoreFrameLimits kLimits;
constexpr milliseconds kFailingLinger{1000};

StoreFrame receive_frame(const Socket& socket, Deadline deadline) {
  std::string bytes;
  for (;;) {
    comm::receive_some(socket, bytes, deadline);
    StoreParse p = comm::parse_store_frame(bytes, kLimits);
    if (p.status == StoreParse::Status::kMalformed) {
      throw CommError(str("tcp store: what answers is no lockstep store: ", p.error));
    }
    if (p.status == StoreParse::Status::kFrame) return std::move(p.frame);
  }
}

}  // namespace

struct TcpStore::Impl {
  TcpStoreOptions options;
  std::optional<comm::StoreServer> server;
  uint16_t port = 0;
  std::mutex mutex;
  std::vector<Socket> idle;  // connections at rest; a get() that waits keeps its own

  Socket connect(milliseconds timeout, bool may_start) {
    const Deadline deadline = steady_clock::now() + timeout;
    Socket socket = comm::connect_to(options.host, port, deadline, may_start);
    comm::send_all(socket,
                   comm::encode_store_frame(
                       {.kind = Kind::kHello, .number = options.rank, .value = options.token}),
                   deadline);
    const StoreFrame answer = receive_frame(socket, deadline);
    if (answer.kind != Kind::kOk) {
      throw CommError(str("tcp store: ", options.host, ":", port, " refused this job's token (",
                          answer.value,
                          "): the port belongs to another job, or the ranks' secrets differ; set "
                          "the same LOCKSTEP_TOKEN on all, or copy ~/.config/lockstep/token of one "
                          "machine to all (mode 0600)"));
    }
    return socket;
  }

  StoreFrame call(const StoreFrame& request, milliseconds server_waits = {}) {
    check(!request.key.empty() && request.key.size() <= kLimits.max_key, "Store: a key has 1 to ",
          kLimits.max_key, " bytes, got ", request.key.size());
    check(request.value.size() <= kLimits.max_value, "Store: a value has at most ",
          kLimits.max_value, " bytes, got ", request.value.size());
    Socket socket;
    {
      const std::lock_guard lock(mutex);
      if (!idle.empty()) {
        socket = std::move(idle.back());
        idle.pop_back();
      }
    }
    // The server has been reached before: one that does not answer now has ended, and is not about
    // to start.
    if (!socket.valid()) socket = connect(options.answer_timeout, /*may_start=*/false);
    const Deadline deadline = steady_clock::now() + options.answer_timeout + server_waits;
    comm::send_all(socket, comm::encode_store_frame(request), deadline);
    StoreFrame answer = receive_frame(socket, deadline);
    if (answer.kind == Kind::kRefused) {
      throw CommError(str("tcp store: key '", request.key, "' refused: ", answer.value));
    }
    const std::lock_guard lock(mutex);
    idle.push_back(std::move(socket));
    return answer;
  }

  std::optional<std::string> try_get(const std::string& key, milliseconds timeout) {
    StoreFrame answer = call({.kind = Kind::kGet, .number = timeout.count(), .key = key}, timeout);
    if (answer.kind == Kind::kTimeout) return std::nullopt;
    return std::move(answer.value);
  }
};

TcpStore::TcpStore(TcpStoreOptions options) : TcpStore(std::move(options), /*may_start=*/true) {}

TcpStore::TcpStore(TcpStoreOptions options, bool may_start) : impl_(std::make_unique<Impl>()) {
  impl_->options = std::move(options);
  const TcpStoreOptions& o = impl_->options;
  if (o.serve) {
    impl_->server.emplace(
        comm::StoreServerOptions{.host = o.host, .port = o.port, .token = o.token});
    impl_->port = impl_->server->port();
  } else {
    check(o.port != 0, "TcpStore: a client needs the server's port");
    impl_->port = o.port;
  }
  impl_->idle.push_back(impl_->connect(o.timeout, may_start));
}

TcpStore::~TcpStore() {
  impl_->idle.clear();
  if (!impl_->server) return;
  // A rank 0 that is failing does not wait long for ranks that do not know it yet.
  const milliseconds linger = std::uncaught_exceptions() > 0
                                  ? std::min(impl_->options.linger, kFailingLinger)
                                  : impl_->options.linger;
  const Deadline deadline = steady_clock::now() + linger;
  while (impl_->server->clients() > 0 && steady_clock::now() < deadline) {
    std::this_thread::sleep_for(milliseconds(1));
  }
}

uint16_t TcpStore::port() const { return impl_->port; }

void TcpStore::set(const std::string& key, const std::string& value) {
  impl_->call({.kind = Kind::kSet, .key = key, .value = value});
}

std::string TcpStore::get(const std::string& key, milliseconds timeout) {
  auto value = impl_->try_get(key, timeout);
  if (!value) {
    throw CommError(str("Store::get: nobody has set '", key, "' within ", timeout.count(), " ms"));
  }
  return std::move(*value);
}

void TcpStore::wait(const std::vector<std::string>& keys, milliseconds timeout) {
  const Deadline deadline = steady_clock::now() + timeout;
  std::string missing;
  for (const std::string& key : keys) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
    if (!impl_->try_get(key, std::max(left, milliseconds(0)))) {
      missing += (missing.empty() ? "'" : ", '") + key + "'";
    }
  }
  if (!missing.empty()) {
    throw CommError(
        str("Store::wait: nobody has set ", missing, " within ", timeout.count(), " ms"));
  }
}

int64_t TcpStore::add(const std::string& key, int64_t delta) {
  return impl_->call({.kind = Kind::kAdd, .number = delta, .key = key}).number;
}

bool TcpStore::remove(const std::string& key) {
  return impl_->call({.kind = Kind::kDelete, .key = key}).number > 0;
}

std::unique_ptr<Store> TcpStore::connect_again(milliseconds answer_timeout) {
  TcpStoreOptions options = impl_->options;
  options.port = impl_->port;
  options.serve = false;
  options.answer_timeout = answer_timeout;
  return std::unique_ptr<Store>(new TcpStore(std::move(options), /*may_start=*/false));
}

}  // namespace lockstep
