#include "lockstep/report/compare.h"

#include "lockstep/base/str.h"

#include <algorithm>
#include <map>
#include <set>

namespace lockstep::report {
namespace {

constexpr size_t kLongest = 48;  // letters of a label

/// Where files are, how often something is told, and what is said of each start anew.
const std::set<std::string> kNoMatter = {
    "bucket-plan",  "checkpoint-every", "config",    "data-dir", "eval-batch-size", "init-method",
    "log-interval", "output-dir",       "overwrite", "resume",   "trace",           "workers"};

/// The settings in which any two differ, in the order of the first run that has them.
std::vector<std::string> differing(const std::vector<RunData>& runs) {
  std::vector<std::string> names;
  for (const RunData& run : runs) {
    for (const auto& [name, value] : run.settings) {
      if (kNoMatter.contains(name) || std::count(names.begin(), names.end(), name) > 0) continue;
      const auto differs = [&, &name = name](const RunData& other) {
        return other.setting(name) != runs.front().setting(name);
      };
      if (std::any_of(runs.begin(), runs.end(), differs)) names.push_back(name);
    }
  }
  return names;
}

/// A flag is "true" or nothing (train/command_line.h).
std::string value_text(const std::vector<RunData>& runs, const RunData& run,
                       const std::string& name) {
  const std::string value = run.setting(name);
  const bool flag = std::all_of(runs.begin(), runs.end(), [&](const RunData& other) {
    const std::string text = other.setting(name);
    return text.empty() || text == "true" || text == "false";
  });
  if (flag) return value == "true" ? "on" : "off";
  return value.empty() ? "none" : value;
}

}  // namespace

std::vector<std::string> labels_of(const std::vector<RunData>& runs) {
  const std::vector<std::string> names = differing(runs);
  const bool other_worlds = std::any_of(runs.begin(), runs.end(), [&](const RunData& run) {
    return run.world_size != runs.front().world_size;
  });
  std::vector<std::string> labels;
  for (const RunData& run : runs) {
    std::string text;
    const auto add = [&](const std::string& name, const std::string& value) {
      text += str(text.empty() ? "" : ", ", name, "=", value);
    };
    for (const std::string& name : names) {
      // How many processes there were in all is said below, whoever started them.
      if (name != "nproc") add(name, value_text(runs, run, name));
    }
    if (other_worlds) add("processes", str(run.world_size));
    labels.push_back(text.empty() || text.size() > kLongest ? run.name : text);
  }
  // The folder's name, and then its path, where labels are alike.
  for (const bool whole : {false, true}) {
    std::map<std::string, int> count;
    for (const std::string& label : labels) ++count[label];
    for (size_t i = 0; i < runs.size(); ++i) {
      if (count[labels[i]] < 2) continue;
      const bool plain = labels[i] == runs[i].name || labels[i].ends_with(")");
      const std::string& where = whole ? runs[i].path : runs[i].name;
      labels[i] = plain ? where : str(labels[i], " (", where, ")");
    }
  }
  return labels;
}

}  // namespace lockstep::report
