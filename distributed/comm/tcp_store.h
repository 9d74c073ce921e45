// TcpStore: the Store of a job, served by rank 0 over TCP.
#pragma once

#include "lockstep/distributed/comm/store.h"

#include <cstdint>
#include <memory>
#include <string>

namespace lockstep {

struct TcpStoreOptions {
  std::string host = "127.0.0.1";  // where the server listens; nothing else reaches it
  uint16_t port = 0;               // 0, for the server only: the system chooses
  bool serve = false;              // true on rank 0
  std::string token = {};          // the job's secret, 1 to 256 bytes
  int rank = -1;                   // if given, Store::kGone lists this rank once it has gone
  /// For reaching the server at first, which may start later than its clients.
  std::chrono::milliseconds timeout{30'000};
  /// For each answer, beyond the time that get() itself waits, and for reaching the server again.
  std::chrono::milliseconds answer_timeout{5'000};
  /// A server that is destroyed stays until all clients have gone, this long at most, so that a
  /// rank that is still reading is not cut off; while an exception unwinds, a second at most, for
  /// the others to read why.
  std::chrono::milliseconds linger{5'000};
};

/// Connects at once; throws CommError if the port is in use, the server cannot be reached within
/// `timeout`, or it refuses the token.
class TcpStore : public Store {
 public:
  explicit TcpStore(TcpStoreOptions options);
  ~TcpStore() override;

  /// Where the server listens.
  uint16_t port() const;

  void set(const std::string& key, const std::string& value) override;
  std::string get(const std::string& key, std::chrono::milliseconds timeout) override;
  void wait(const std::vector<std::string>& keys, std::chrono::milliseconds timeout) override;
  int64_t add(const std::string& key, int64_t delta) override;
  bool remove(const std::string& key) override;
  std::unique_ptr<Store> connect_again(std::chrono::milliseconds answer_timeout) override;

 private:
  TcpStore(TcpStoreOptions options, bool may_start);

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep
