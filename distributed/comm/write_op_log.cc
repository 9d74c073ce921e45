#include "lockstep/distributed/comm/write_op_log.h"

#include "lockstep/distributed/comm/op_log.h"
#include "lockstep/io/atomic_file.h"

#include <unistd.h>
#include <nlohmann/json.hpp>

#include <chrono>

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFormat = 1;

/// Steady-clock times as microseconds since 1970, so that other ranks' can be compared.
class WallClock {
 public:
  /// Null for a time that has not come.
  Json operator()(int64_t steady_ns) const {
    return steady_ns == 0 ? Json() : Json(now_us_ + (steady_ns - steady_now_ns_) / 1000);
  }
  int64_t now_us() const { return now_us_; }

 private:
  const int64_t steady_now_ns_ = comm::steady_now_ns();
  const int64_t now_us_ = std::chrono::duration_cast<std::chrono::microseconds>(
                              std::chrono::system_clock::now().time_since_epoch())
                              .count();
};

Json json_of(const comm::OpRecord& op, const WallClock& clock) {
  return {{"sequence", op.sequence},
          {"collective", op.point_to_point() ? Json() : Json(op.collective)},
          {"call", describe(op.signature)},
          {"label", op.label.view()},
          {"state", comm::name_of(op.state)},
          {"queued_us", clock(op.queued_ns)},
          {"begun_us", clock(op.begun_ns)},
          {"started_us", clock(op.started_ns)},
          {"finished_us", clock(op.finished_ns)}};
}

Json json_of(const comm::LoggedGroup& group, const WallClock& clock) {
  Json ops = Json::array();
  for (const comm::OpRecord& op : group.log->records()) ops.push_back(json_of(op, clock));
  return {{"name", group.name},
          {"ranks", group.ranks},
          {"failure", group.log->failure()},
          {"collectives", group.log->progress().collectives},
          {"ops", std::move(ops)}};
}

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "";
}

}  // namespace

bool write_op_log(const ProcessGroup& group, const std::string& path, const std::string& error) {
  const auto* source = dynamic_cast<const comm::OpLogSource*>(&group);
  if (source == nullptr) return false;
  comm::LogCollection logs;
  source->collect_logs(logs);
  if (logs.groups.empty()) return false;
  const WallClock clock;
  Json groups = Json::array(), heard = Json::array();
  for (const comm::LoggedGroup& one : logs.groups) groups.push_back(json_of(one, clock));
  for (const auto& [rank, text] : logs.heard) heard.push_back({{"rank", rank}, {"text", text}});
  const Json file{{"kind", "ring"},
                  {"format", kFormat},
                  {"rank", group.rank()},
                  {"world_size", group.size()},
                  {"host", host_name()},
                  {"process", ::getpid()},
                  {"written_us", clock.now_us()},
                  {"error", error},
                  {"heard", std::move(heard)},
                  {"groups", std::move(groups)}};
  write_file_atomically(path, file.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
  return true;
}

std::string op_log_file(const std::string& directory, int rank) {
  return str(directory, "/ring.rank", rank, ".json");
}

}  // namespace lockstep
