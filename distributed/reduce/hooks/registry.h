// Communication hooks by name, for command lines. A registry is a value: add your own hooks to a
// copy of the built-in ones.
#pragma once

#include "lockstep/distributed/reduce/comm_hook.h"
#include "lockstep/distributed/reduce/hooks/comm_hook_options.h"

#include <functional>
#include <map>
#include <memory>
#include <string>

namespace lockstep {

using CommHookFactory = std::function<std::shared_ptr<CommHook>(CommHookOptions& options)>;
using CommHookRegistry = std::map<std::string, CommHookFactory>;

/// allreduce                   the plain sum
/// bf16                        16-bit floats with f32's range (half_hook.h)
/// fp16:overflow=error|inf     16-bit floats with 11 bits of precision, up to 65,504 (half_hook.h)
/// noop                        no communication, to measure; wrong for training (noop_hook.h)
/// topk:ratio=0.01             the largest elements alone, the others later (topk_hook.h)
CommHookRegistry builtin_comm_hooks();

/// A hook from "NAME" or "NAME:key=value,key=value". Throws ArgumentError that lists what there is
/// for an unknown name, key or value.
std::shared_ptr<CommHook> parse_comm_hook(const std::string& text,
                                          const CommHookRegistry& registry = builtin_comm_hooks());

}  // namespace lockstep
