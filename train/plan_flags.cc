#include "lockstep/train/plan_flags.h"

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/io/atomic_file.h"
#include "lockstep/train/command_line.h"
#include "lockstep/train/plan_file.h"
#include "lockstep/train/rank_zero.h"

#include <CLI/CLI.hpp>

#include <filesystem>
#include <span>
#include <utility>

namespace lockstep {
namespace {

bool there(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

std::string describe(const PlanOrigin& origin) { return origin.library + " on " + origin.device; }

/// Whether plans of `origin` hold here. What to do about it, if not, is a warning's end.
bool holds_here(const PlanFlags& flags, const PlanOrigin& origin) {
  const PlanOrigin here = plan_origin();
  if (origin == here) return true;
  log_warning(str(
      "--cudnn-plans ", flags.file, " is of ", describe(origin), ", this is ", describe(here),
      "; its plans are not used",
      flags.benchmark ? ", and those of now replace them" : "; --cudnn-benchmark finds others"));
  return false;
}

/// Rank 0's file, if it is there and holds there; otherwise empty.
std::string text_for_all(const PlanFlags& flags) {
  check_plan_file(flags);
  if (!there(flags.file)) return "";
  const PlanFile file = read_plan_file(flags.file);
  return holds_here(flags, file.origin) ? to_json(file) : "";
}

}  // namespace

void add_plan_flags(CLI::App& app, PlanFlags& flags) {
  app.add_flag("--cudnn-benchmark", flags.benchmark,
               "Time the best few of cuDNN's plans for each new shape, and take the fastest");
  app.add_option("--cudnn-plans", flags.file,
                 "A file of the choices: taken from there if it exists, and new ones of "
                 "--cudnn-benchmark kept there")
      ->check(not_empty());
}

std::string wrong_plan_flags(const PlanFlags& flags, Device device) {
  if (!device.is_cpu() || (!flags.benchmark && flags.file.empty())) return "";
  return str(flags.benchmark ? "--cudnn-benchmark" : "--cudnn-plans",
             " is for a GPU; it wants --device cuda");
}

void check_plan_file(const PlanFlags& flags) {
  if (flags.file.empty()) return;
  if (there(flags.file)) {
    read_plan_file(flags.file);
  } else if (!flags.benchmark) {
    throw IoError(str("--cudnn-plans ", flags.file,
                      ": wanted the plans of an earlier run, got no such file; --cudnn-benchmark "
                      "makes it"));
  }
  if (flags.benchmark) AtomicFile(flags.file);  // and nothing is committed to it
}

KeptPlans::KeptPlans(const PlanFlags& flags, ProcessGroup& group)
    : flags_(flags),
      writes_(flags.benchmark && !flags.file.empty() && group.rank() == 0),
      noted_before_(plan_book().noted()),
      seen_(noted_before_),
      written_(noted_before_) {
  set_time_plans(flags.benchmark);
  if (flags.file.empty()) return;
  const auto bytes = broadcast_from_rank_zero(group, "cuDNN plans", [&] {
    const std::string text = text_for_all(flags);
    const auto view = std::as_bytes(std::span(text));
    return std::vector<std::byte>(view.begin(), view.end());
  });
  if (bytes.empty()) return;
  const PlanFile file =
      plan_file_from_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, flags.file);
  if (group.rank() == 0 || holds_here(flags, file.origin)) plan_book().add(file.plans);
}

KeptPlans::~KeptPlans() {
  if (written_ != plan_book().noted()) write();
}

void KeptPlans::look() {
  const int64_t noted = plan_book().noted();
  if (noted == std::exchange(seen_, noted) && noted != written_) write();
}

void KeptPlans::write() {
  written_ = plan_book().noted();  // also where it fails: a step is no time to try again
  if (!writes_) return;
  try {
    write_file_atomically(flags_.file,
                          to_json({.origin = plan_origin(), .plans = plan_book().entries()}));
  } catch (const std::exception& error) {
    log_warning(str("--cudnn-plans: ", error.what(), "; the plans are not kept"));
  }
}

std::string KeptPlans::summary() const {
  const int64_t timed = plan_book().noted() - noted_before_;
  if (timed == 0) return "";
  return str("cuDNN's plans for ", timed, timed == 1 ? " shape" : " shapes", " timed on this rank",
             flags_.file.empty() ? "; --cudnn-plans FILE would keep them"
                                 : str(", and kept in ", flags_.file));
}

}  // namespace lockstep
