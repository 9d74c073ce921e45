// A context of Gloo whose waits can be ended from another thread.
//
// Gloo ends the waits on a connection that breaks. But a send that is handed to a connection while
// that one is breaking can be missed, and waits for its whole timeout: abort_waits() ends it, too.
#pragma once

// Gloo's headers use std::runtime_error and std::unique_ptr without including them.
#include <memory>
#include <stdexcept>

#include <gloo/rendezvous/context.h>
#include <gloo/transport/context.h>

namespace lockstep::comm {

class AbortableContext : public gloo::rendezvous::Context {
 public:
  using gloo::rendezvous::Context::Context;

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
