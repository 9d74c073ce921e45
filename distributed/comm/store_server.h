// StoreServer: the TCP store's table, served by one thread. All state belongs to that thread, so
// there is no lock.
//
// Who may use it: the first frame of a connection must carry the job's token; until then a
// connection may send one small frame, has five seconds however its bytes dribble in, and sees
// nothing. There are never many of those: the oldest is dropped for the next. The token is compared
// in constant time. It travels in the clear: on a network that others can read, use a tunnel.
#pragma once

#include "lockstep/distributed/comm/socket.h"
#include "lockstep/distributed/comm/store_frame.h"

#include <atomic>
#include <list>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>

namespace lockstep::comm {

struct StoreServerOptions {
  std::string host = "127.0.0.1";  // the one address to listen on
  uint16_t port = 0;               // 0: the system chooses
  std::string token = {};
  StoreFrameLimits limits = {};
  size_t max_connections = 4096;
  size_t max_strangers = 256;  // connections that have not shown the token; leaves room for files
  size_t max_bytes = size_t{64} << 20;  // of all keys and values together
  std::chrono::milliseconds hello_timeout{5000};
  std::string gone_key = "@gone";  // Store::kGone
};

class StoreServer {
 public:
  /// Throws CommError if it cannot listen there.
  explicit StoreServer(StoreServerOptions options);
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  uint16_t port() const { return port_; }
  /// Connections that have shown the token.
  int clients() const { return clients_.load(); }

 private:
  struct Connection {
    Socket socket;
    Deadline hello_by;
    std::string in;
    std::string out;
    bool known = false;  // has shown the token
    int64_t rank = -1;
    bool closing = false;  // once `out` is sent
    bool waiting = false;  // for `awaited`, until `wait_until`
    std::string awaited;
    Deadline wait_until;
  };

  void loop();
  void accept_some();
  /// Whether the connection stays open.
  bool read(Connection& connection);
  bool flush(Connection& connection);
  void parse(Connection& connection);
  void handle(Connection& connection, StoreFrame frame);
  void handle_hello(Connection& connection, const StoreFrame& frame);
  void handle_set(Connection& connection, StoreFrame& frame);
  void handle_add(Connection& connection, const StoreFrame& frame);
  /// Whether there was room.
  bool put(const std::string& key, std::string value);
  void reply(Connection& connection, StoreFrame frame);
  void refuse(Connection& connection, std::string why);
  void note_gone(int64_t rank);
  void drop(std::list<Connection>::iterator connection);
  int poll_timeout() const;
  void check_deadlines();

  const StoreServerOptions options_;
  Socket listener_;
  uint16_t port_;
  Socket wake_;  // an eventfd: written to stop the loop
  std::list<Connection> connections_;
  std::unordered_map<std::string, std::string> table_;
  size_t table_bytes_ = 0;
  std::atomic<int> clients_{0};
  std::thread thread_;
};

/// Whether the two are equal, in a time that depends only on the length of `given`.
bool equal_in_constant_time(std::string_view given, std::string_view secret);

}  // namespace lockstep::comm
