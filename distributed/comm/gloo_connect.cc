#include "lockstep/distributed/comm/gloo_connect.h"

#include "lockstep/base/failpoint.h"
#include "lockstep/base/thread_signals.h"
#include "lockstep/distributed/comm/peer_lost.h"
#include "lockstep/distributed/comm/start_store.h"

// Gloo's headers use std::runtime_error and std::unique_ptr without including them.
#include <memory>
#include <stdexcept>

#include <gloo/transport/tcp/device.h>

namespace lockstep::comm {

std::string gloo_message(const std::exception& error) {
  std::string text = error.what();
  if (text.starts_with('[')) {
    const size_t end = text.find("] ");
    if (end != std::string::npos) text.erase(0, end + 2);
  }
  return text.substr(0, text.find('\n'));
}

namespace {

/// Gloo connects the two ends of a pair, each with its own call; `start` is where they exchange
/// their addresses.
void connect_all(AbortableContext& context, StartStore& start, const std::string& prefix,
                 const GlooGroupOptions& options) {
  gloo::transport::tcp::attr attributes;
  attributes.hostname = options.host;
  const std::string own =
      context.listen(gloo::transport::tcp::CreateDevice(attributes), options.start_timeout);
  failpoint("gloo_connect.before_addresses");
  start.set(str(prefix, "/address/", context.rank), own);
  const StartWatch watch(start, options.start_timeout, [&] { context.close(); });
  for (int peer = 0; peer < context.size; ++peer) {
    if (peer == context.rank) continue;
    const std::string theirs = start.get(str(prefix, "/address/", peer), options.start_timeout);
    failpoint("gloo_connect.before_peer");
    std::optional<std::string> why;
    try {
      context.connect(peer, theirs);
    } catch (const std::exception&) {
      watch.check_on();
      if ((why = start.failure_soon())) throw CommError(str(kPeerLost, ": ", *why));
      throw;
    }
    watch.check_on();
  }
}

}  // namespace

std::shared_ptr<AbortableContext> connect_gloo(lockstep::Store& store, const std::string& prefix,
                                               int rank, const std::vector<int>& ranks,
                                               const GlooGroupOptions& options) {
  // Gloo's own thread inherits the mask: a write to a dead peer would end the process by SIGPIPE.
  const SignalsBlocked blocked;
  StartStore start(store, prefix, ranks[static_cast<size_t>(rank)], ranks);
  try {
    return start.run([&] {
      auto context = std::make_shared<AbortableContext>(rank, static_cast<int>(ranks.size()));
      connect_all(*context, start, prefix, options);
      context->setTimeout(options.timeout);
      context->make_abortable();
      start.started();
      return context;
    });
  } catch (const CommError& e) {
    throw CommError(str("make_gloo_group: not all ranks have come: ", e.what()));
  } catch (const std::exception& e) {
    throw CommError(str("make_gloo_group: cannot connect the ranks from ", options.host, ": ",
                        gloo_message(e)));
  }
}

}  // namespace lockstep::comm
