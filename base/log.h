// Where the library's own words go. It prints nothing by itself except through this sink.
#pragma once

#include <functional>
#include <string_view>

namespace lockstep {

enum class LogLevel { kInfo, kWarning };

using LogSink = std::function<void(LogLevel, std::string_view)>;

/// Replaces the sink of the process and returns the one before it; the default writes a line to
/// standard error. Safe to call from any thread; the sink itself is called with a lock held and
/// must not log.
LogSink set_log_sink(LogSink sink);

void log_info(std::string_view message);
void log_warning(std::string_view message);

}  // namespace lockstep
