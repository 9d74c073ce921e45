#include "lockstep/report/diagnosis.h"

#include "lockstep/base/str.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <map>

namespace lockstep::report {
namespace {

bool holds(const std::vector<int>& ranks, int rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

/// "rank 2", "ranks 0, 1 and 2".
std::string named(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) {
    text += str(i == 0 ? "" : i + 1 < ranks.size() ? ", " : " and ", ranks[i]);
  }
  return text;
}

/// "02:41:07.123".
std::string time_of_day(int64_t us) {
  const auto seconds = static_cast<std::time_t>(us / 1'000'000);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char text[48];
  std::snprintf(text, sizeof text, "%02d:%02d:%02d.%03d", utc.tm_hour, utc.tm_min, utc.tm_sec,
                static_cast<int>(us / 1000 % 1000));
  return text;
}

std::string duration(int64_t us) {
  char text[48];
  std::snprintf(text, sizeof text, "%.2f s", static_cast<double>(us) / 1e6);
  return text;
}

std::string call_of(const RingOp& op) {
  return op.label.empty() ? op.call : str(op.call, " [", op.label, "]");
}

const RingGroup* group_of(const RingLog& log, const std::string& name) {
  for (const RingGroup& group : log.groups) {
    if (group.name == name) return &group;
  }
  return nullptr;
}

/// The operation that the rank was in.
const RingOp* unfinished_op(const RingGroup& group) {
  for (const RingOp& op : group.ops) {
    if (op.unfinished()) return &op;
  }
  return nullptr;
}

/// Names of the groups, in the order in which the logs have them.
std::vector<std::string> group_names(const RingLogs& run) {
  std::vector<std::string> names;
  for (const RingLog& log : run.logs) {
    for (const RingGroup& group : log.groups) {
      if (std::find(names.begin(), names.end(), group.name) == names.end()) {
        names.push_back(group.name);
      }
    }
  }
  return names;
}

std::vector<int> members_of(const RingLogs& run, const std::string& group) {
  std::vector<int> members;
  for (const RingLog& log : run.logs) {
    const RingGroup* found = group_of(log, group);
    if (found == nullptr) continue;
    for (const int rank : found->ranks) {
      if (!holds(members, rank)) members.push_back(rank);
    }
  }
  std::sort(members.begin(), members.end());
  return members;
}

const RingLog* log_of(const RingLogs& run, int rank) {
  for (const RingLog& log : run.logs) {
    if (log.rank == rank) return &log;
  }
  return nullptr;
}

void add_waits(const RingLogs& run, const std::string& name, std::vector<Wait>& waits) {
  std::map<int64_t, Wait> by_collective;
  for (const RingLog& log : run.logs) {
    const RingGroup* group = group_of(log, name);
    const RingOp* op = group != nullptr ? unfinished_op(*group) : nullptr;
    if (op == nullptr || !op->collective) continue;
    Wait& wait = by_collective[*op->collective];
    if (wait.waiting.empty() || *op->begun_us < wait.since_us) wait.since_us = *op->begun_us;
    if (wait.waiting.empty()) {
      wait.group = name;
      wait.collective = *op->collective;
      wait.call = op->call;
      wait.label = op->label;
    }
    wait.waiting.push_back(log.rank);
  }
  for (auto& [collective, wait] : by_collective) {
    for (const int rank : members_of(run, name)) {
      const RingLog* log = log_of(run, rank);
      const RingGroup* group = log != nullptr ? group_of(*log, name) : nullptr;
      const bool done = group != nullptr && group->collectives > collective;
      if (!done && !holds(wait.waiting, rank)) wait.awaited.push_back(rank);
    }
    waits.push_back(std::move(wait));
  }
}

/// What a rank that had not come did instead.
std::string instead(const RingLogs& run, const std::string& name, int rank) {
  const RingLog* log = log_of(run, rank);
  if (log == nullptr) {
    std::string text = "has left no log";
    for (const RingLog& other : run.logs) {
      for (const auto& [about, words] : other.heard) {
        if (about == rank) return str(text, "; rank ", other.rank, " last heard of it: ", words);
      }
    }
    return text;
  }
  const RingGroup* group = group_of(*log, name);
  if (group == nullptr) return "is no longer in this group";
  if (const RingOp* op = unfinished_op(*group)) {
    return str("was in ", op->collective ? str("collective ", *op->collective) : "a letter", ", ",
               call_of(*op), ", since ", time_of_day(*op->begun_us));
  }
  const RingOp* last = nullptr;
  for (const RingOp& op : group->ops) {
    if (op.state == "done") last = &op;
  }
  if (last == nullptr) return "was in no collective, and had been in none";
  return str("was in no collective; its last, ",
             last->collective ? str("collective ", *last->collective, ", ") : "", call_of(*last),
             last->finished_us ? str(", ended at ", time_of_day(*last->finished_us)) : "");
}

std::string describe(const RingLogs& run, const Wait& wait) {
  std::string text = named(wait.waiting);
  text[0] = 'R';
  if (!wait.awaited.empty()) {
    text += " waited for " + named(wait.awaited);
  } else {
    text += wait.waiting.size() == 1 ? " was" : " were";
  }
  text += str(" in collective ", wait.collective, " of ", wait.group, ", since ",
              time_of_day(wait.since_us), ":\n  ", wait.call,
              wait.label.empty() ? "" : str(" [", wait.label, "]"), "\n");
  for (const int rank : wait.waiting) {
    const RingOp& op = *unfinished_op(*group_of(*log_of(run, rank), wait.group));
    const int64_t until = op.finished_us.value_or(log_of(run, rank)->written_us);
    text += str("  rank ", rank, "  was in it from ", time_of_day(*op.begun_us), ", for ",
                duration(until - *op.begun_us),
                op.started_us ? ", and its data was on the way" : "", "\n");
  }
  for (const int rank : wait.awaited) {
    text += str("  rank ", rank, "  ", instead(run, wait.group, rank), "\n");
  }
  return text + "\n";
}

/// What the logs say of the order of calls in one group.
std::string agreement(const RingLogs& run, const std::string& name) {
  std::map<int64_t, int> ranks_with;
  for (const RingLog& log : run.logs) {
    const RingGroup* group = group_of(log, name);
    if (group == nullptr) continue;
    for (const RingOp& op : group->ops) {
      if (op.collective) ++ranks_with[*op.collective];
    }
  }
  std::erase_if(ranks_with, [](const auto& entry) { return entry.second < 2; });
  if (ranks_with.empty()) return str(name, ": no two logs have a collective in common\n");
  return str(name, ": the logs agree on the calls of the collectives ", ranks_with.begin()->first,
             " to ", ranks_with.rbegin()->first, "\n");
}

}  // namespace

std::vector<Wait> waits_of(const RingLogs& run) {
  std::vector<Wait> waits;
  for (const std::string& name : group_names(run)) add_waits(run, name, waits);
  return waits;
}

std::vector<Difference> differences_of(const RingLogs& run) {
  std::vector<Difference> differences;
  for (const std::string& name : group_names(run)) {
    std::map<int64_t, std::pair<int, const RingOp*>> first;  // by collective: who says it first
    std::optional<Difference> found;
    for (const RingLog& log : run.logs) {
      const RingGroup* group = group_of(log, name);
      if (group == nullptr) continue;
      for (const RingOp& op : group->ops) {
        if (!op.collective) continue;
        const auto [at, is_first] = first.try_emplace(*op.collective, log.rank, &op);
        if (is_first || at->second.second->call == op.call) continue;
        if (found && found->collective <= *op.collective) continue;
        found = Difference{
            name,       *op.collective, at->second.first, log.rank, call_of(*at->second.second),
            call_of(op)};
      }
    }
    if (found) differences.push_back(*found);
  }
  return differences;
}

std::string diagnosis_page(const RingLogs& run) {
  std::vector<int> ranks;
  for (const RingLog& log : run.logs) ranks.push_back(log.rank);
  std::string page = str(run.directory, ": ring logs of ", named(ranks), " of a run of ",
                         run.world_size, "; times are UTC\n");
  if (!run.missing.empty()) {
    page += str("No log of ", named(run.missing),
                ": killed, or on another host (copy its ring.rankN.json here)\n");
  }
  page += "\n";
  const std::vector<Wait> waits = waits_of(run);
  for (const Wait& wait : waits) page += describe(run, wait);
  if (waits.empty()) page += "No rank was in a collective.\n\n";
  const std::vector<Difference> differences = differences_of(run);
  for (const std::string& name : group_names(run)) {
    const auto differs = std::find_if(differences.begin(), differences.end(),
                                      [&](const Difference& d) { return d.group == name; });
    if (differs == differences.end()) {
      page += agreement(run, name);
    } else {
      page += str(name, ": the calls differ from collective ", differs->collective, " on:\n  rank ",
                  differs->rank_a, "  ", differs->call_a, "\n  rank ", differs->rank_b, "  ",
                  differs->call_b, "\n");
    }
  }
  page += "\nWhat each rank failed of:\n";
  for (const RingLog& log : run.logs) {
    page += str("  rank ", log.rank, "  ", log.error.empty() ? "(not told)" : log.error, "\n");
  }
  return page;
}

}  // namespace lockstep::report
