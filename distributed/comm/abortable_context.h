// A context of Gloo whose waits can be ended from another thread.
//
// While ranks connect, one that listens for another's connection waits five times Gloo's timeout,
// whatever becomes of the other: close() ends that. Later Gloo ends the waits on a
// connection that breaks. But a send that is handed to a connection while that one is breaking can
// be missed, and waits for its whole timeout: abort_waits() ends it, too.
#pragma once

// Gloo's headers use std::runtime_error and std::unique_ptr without including them.
#include <memory>
#include <stdexcept>

#include <gloo/rendezvous/context.h>
#include <gloo/transport/context.h>
#include <gloo/transport/device.h>

#include <chrono>
#include <string>

namespace lockstep::comm {

class AbortableContext : public gloo::rendezvous::Context {
 public:
  using gloo::rendezvous::Context::Context;

  /// Listens for every other rank. Returns the addresses that they need, in order of rank and all
  /// of one length, as one text; this rank's own is zeros.
  std::string listen(std::shared_ptr<gloo::transport::Device> device,
                     std::chrono::milliseconds timeout);
  /// Connects to one rank, which does the same; `addresses` are what its listen() has returned.
  void connect(int peer, const std::string& addresses);
  /// Closes all connections: a connect() in progress ends, well or not, and so do later ones, and
  /// nothing arrives any more once it returns. Any thread, after listen().
  void close();
  /// Once, when all ranks are connected.
  void make_abortable();
  /// Waits in progress and later ones throw. Any thread.
  void abort_waits();

 private:
  class Transport;
  class Buffer;
  std::shared_ptr<Transport> transport_;
};

}  // namespace lockstep::comm
