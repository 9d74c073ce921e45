#include "lockstep/distributed/comm/gloo_connect.h"

#include "lockstep/base/thread_signals.h"

// Gloo's headers use std::runtime_error and std::unique_ptr without including them.
#include <memory>
#include <stdexcept>

#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>

namespace lockstep::comm {
namespace {

class StoreForGloo : public gloo::rendezvous::Store {
 public:
  StoreForGloo(lockstep::Store& store, std::string prefix, std::chrono::milliseconds timeout)
      : store_(store), prefix_(std::move(prefix)), timeout_(timeout) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    store_.set(prefix_ + key, std::string(data.begin(), data.end()));
  }
  std::vector<char> get(const std::string& key) override {
    const std::string value = store_.get(prefix_ + key, timeout_);
    return {value.begin(), value.end()};
  }
  void wait(const std::vector<std::string>& keys) override { wait(keys, timeout_); }
  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds& timeout) override {
    std::vector<std::string> full;
    for (const std::string& key : keys) full.push_back(prefix_ + key);
    store_.wait(full, timeout);
  }

 private:
  lockstep::Store& store_;
  std::string prefix_;
  std::chrono::milliseconds timeout_;
};

}  // namespace

std::string gloo_message(const std::exception& error) {
  std::string text = error.what();
  if (text.starts_with('[')) {
    const size_t end = text.find("] ");
    if (end != std::string::npos) text.erase(0, end + 2);
  }
  return text.substr(0, text.find('\n'));
}

std::shared_ptr<AbortableContext> connect_gloo(lockstep::Store& store, const std::string& prefix,
                                               int rank, int size,
                                               const GlooGroupOptions& options) {
  // Gloo's own thread inherits the mask: a write to a dead peer would end the process by SIGPIPE.
  const SignalsBlocked blocked;
  try {
    StoreForGloo gloo_store(store, prefix + "/", options.start_timeout);
    gloo::transport::tcp::attr attributes;
    attributes.hostname = options.host;
    auto device = gloo::transport::tcp::CreateDevice(attributes);
    auto context = std::make_shared<AbortableContext>(rank, size);
    context->setTimeout(options.start_timeout);
    context->connectFullMesh(gloo_store, device);
    context->setTimeout(options.timeout);
    context->make_abortable();
    return context;
  } catch (const CommError& e) {
    throw CommError(str("make_gloo_group: not all ranks have come: ", e.what()));
  } catch (const std::exception& e) {
    throw CommError(str("make_gloo_group: cannot connect the ranks from ", options.host, ": ",
                        gloo_message(e)));
  }
}

}  // namespace lockstep::comm
