// Store: a small table of keys and values that all ranks of a job share. It serves the start of a
// job (who is where), not its data.
#pragma once

#include "lockstep/base/error.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace lockstep {

/// The store has ended, as far as can be told: the connection was closed, or nobody listens there.
class StoreClosed : public CommError {
 public:
  using CommError::CommError;
};

/// All functions may be called from any thread, and throw CommError if the store cannot be reached
/// or refuses.
class Store {
 public:
  /// The server itself sets this key when a rank's last connection has closed: the ranks that have
  /// gone so far, as "1, 3".
  static constexpr const char* kGone = "@gone";

  virtual ~Store() = default;

  /// Keys are at most 1 KiB, values at most 1 MiB (ArgumentError).
  virtual void set(const std::string& key, const std::string& value) = 0;
  /// Waits until the key is set; CommError that names the key after `timeout`.
  virtual std::string get(const std::string& key, std::chrono::milliseconds timeout) = 0;
  /// Waits for all keys; CommError that names every missing key after `timeout`.
  virtual void wait(const std::vector<std::string>& keys, std::chrono::milliseconds timeout) = 0;
  /// Adds to a counter in one step and returns the sum; a key that is not set counts from 0. get()
  /// gives it as text.
  virtual int64_t add(const std::string& key, int64_t delta) = 0;
  /// Whether the key was set.
  virtual bool remove(const std::string& key) = 0;
  /// A client of the same store with connections of its own, whose calls wait `answer_timeout` at
  /// most beyond what they are to wait. May outlive this one.
  virtual std::unique_ptr<Store> connect_again(std::chrono::milliseconds answer_timeout) = 0;

  Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
};

}  // namespace lockstep
