// Connecting Gloo's ranks by way of our Store.
#pragma once

#include "lockstep/distributed/comm/abortable_context.h"
#include "lockstep/distributed/comm/gloo_group.h"

#include <vector>

namespace lockstep::comm {

/// A context in which every rank is connected to every other; `ranks` are their numbers in the job,
/// `rank` is this one's place among them. Throws CommError, and soon, where one has died or cannot
/// connect.
std::shared_ptr<AbortableContext> connect_gloo(Store& store, const std::string& prefix, int rank,
                                               const std::vector<int>& ranks,
                                               const GlooGroupOptions& options);

/// Gloo's message without its source location.
std::string gloo_message(const std::exception& error);

}  // namespace lockstep::comm
