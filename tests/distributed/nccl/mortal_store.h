// MortalStore: a rank's store whose connections can be cut all at once and without last words, as
// by the death of its process.
#pragma once

#include "lockstep/distributed/comm/store.h"

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace lockstep::testing {

class MortalStore final : public Store {
 public:
  explicit MortalStore(std::shared_ptr<Store> store)
      : MortalStore(std::move(store), std::make_shared<Life>()) {}

  /// This one and all that it was asked to connect.
  void kill() {
    const std::lock_guard lock(life_->mutex);
    for (const auto& connection : life_->connections) connection->store.reset();
  }

  void set(const std::string& key, const std::string& value) override {
    alive([&](Store& store) { store.set(key, value); });
  }
  std::string get(const std::string& key, std::chrono::milliseconds timeout) override {
    std::string value;
    alive([&](Store& store) { value = store.get(key, timeout); });
    return value;
  }
  void wait(const std::vector<std::string>& keys, std::chrono::milliseconds timeout) override {
    alive([&](Store& store) { store.wait(keys, timeout); });
  }
  int64_t add(const std::string& key, int64_t delta) override {
    int64_t sum = 0;
    alive([&](Store& store) { sum = store.add(key, delta); });
    return sum;
  }
  bool remove(const std::string& key) override {
    bool was_set = false;
    alive([&](Store& store) { was_set = store.remove(key); });
    return was_set;
  }
  std::unique_ptr<Store> connect_again(std::chrono::milliseconds answer_timeout) override {
    std::unique_ptr<Store> again;
    alive([&](Store& store) { again = store.connect_again(answer_timeout); });
    return std::unique_ptr<Store>(new MortalStore(std::move(again), life_));
  }

 private:
  struct Connection {
    std::shared_ptr<Store> store;  // null: cut
  };
  struct Life {
    std::mutex mutex;  // not held while a store is asked
    std::vector<std::shared_ptr<Connection>> connections;
  };

  MortalStore(std::shared_ptr<Store> store, std::shared_ptr<Life> life)
      : connection_(std::make_shared<Connection>(std::move(store))), life_(std::move(life)) {
    const std::lock_guard lock(life_->mutex);
    life_->connections.push_back(connection_);
  }

  void alive(const std::function<void(Store&)>& call) {
    std::shared_ptr<Store> store;
    {
      const std::lock_guard lock(life_->mutex);
      store = connection_->store;
    }
    if (store == nullptr) throw StoreClosed("Store: this rank is dead");
    call(*store);
  }

  const std::shared_ptr<Connection> connection_;
  const std::shared_ptr<Life> life_;
};

}  // namespace lockstep::testing
