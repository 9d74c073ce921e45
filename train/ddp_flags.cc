#include "lockstep/train/ddp_flags.h"

#include "lockstep/base/error.h"
#include "lockstep/distributed/reduce/hooks/registry.h"
#include "lockstep/distributed/reduce/plan_json.h"
#include "lockstep/io/file.h"
#include "lockstep/train/command_line.h"
#include "lockstep/train/rank_zero.h"

#include <CLI/CLI.hpp>

#include <algorithm>

namespace lockstep {
namespace {

constexpr uint64_t kLargestPlan = 64 << 20;  // bytes; a million parameters with long names

std::string read_text(const std::string& file) {
  const std::vector<uint8_t> bytes = read_file(file, kLargestPlan);
  return {bytes.begin(), bytes.end()};
}

/// Empty, or what is wrong with it.
std::string check_comm_hook(const std::string& text) {
  try {
    parse_comm_hook(text);
    return "";
  } catch (const ArgumentError& error) {
    return error.what();
  }
}

}  // namespace

void add_ddp_flags(CLI::App& app, DdpFlags& flags) {
  const auto mib = within(0, 1e15, "a value from 0 to 10^15");
  app.add_option("--ddp-mode", flags.mode,
                 "How gradients are averaged: local (not at all), naive, bucketed, overlapped")
      ->check(CLI::IsMember({"local", "naive", "bucketed", "overlapped"}));
  auto* rest = app.add_option("--bucket-cap-mb", flags.bucket_cap_mb,
                              "MiB at which a bucket closes; 0: one gradient each");
  auto* first = app.add_option(
      "--first-bucket-cap-mb", flags.first_bucket_cap_mb,
      "The same for the first bucket; not given: 1, or --bucket-cap-mb where that is less");
  auto* last = app.add_option("--last-bucket-cap-mb", flags.last_bucket_cap_mb,
                              "Most MiB of a last bucket of its own; not given: none");
  auto* list = app.add_option("--bucket-caps-mb", flags.bucket_caps_mb,
                              "The caps of all buckets, as 1,5,25; the last one holds for the rest")
                   ->delimiter(',')
                   ->allow_extra_args(false)
                   ->excludes(first)
                   ->excludes(rest);
  for (CLI::Option* cap : {rest, first, last, list}) cap->check(mib);
  app.add_option("--bucket-plan", flags.bucket_plan,
                 "A file that says which gradients travel together, as bucket_plan.json in an "
                 "--output-dir")
      ->check(not_empty())
      ->excludes(first)
      ->excludes(rest)
      ->excludes(last)
      ->excludes(list);
  app.add_flag("--find-unused-parameters", flags.find_unused_parameters,
               "Parameters may be left out of a step's loss");
  app.add_flag("--static-graph", flags.static_graph,
               "The same, where it is the same ones in every step");
  app.add_flag("--broadcast-buffers,!--no-broadcast-buffers", flags.broadcast_buffers,
               "Running statistics are rank 0's on all ranks after each step (the default), or "
               "only at each evaluation");
  app.add_option("--comm-hook", flags.comm_hook,
                 "How a bucket is summed, as NAME[:key=value,...]: allreduce, bf16, "
                 "fp16:overflow=error|inf, topk:ratio=0.01, noop (to measure; it trains wrongly); "
                 "not given: an all-reduce")
      ->check(check_comm_hook);
}

bool has_caps(const DdpFlags& flags) {
  return flags.bucket_cap_mb != DdpFlags{}.bucket_cap_mb || flags.first_bucket_cap_mb ||
         flags.last_bucket_cap_mb || !flags.bucket_caps_mb.empty() || !flags.bucket_plan.empty();
}

const char* wrong_ddp_flags(const DdpFlags& flags) {
  if (flags.mode == "naive" && !flags.bucket_plan.empty()) {
    return "--ddp-mode naive reduces each gradient alone; it takes no --bucket-plan";
  }
  if (flags.mode == "local" && !flags.comm_hook.empty()) {
    return "--ddp-mode local does not communicate; it takes no --comm-hook";
  }
  return nullptr;
}

std::shared_ptr<CommHook> comm_hook(const DdpFlags& flags) {
  return flags.comm_hook.empty() ? nullptr : parse_comm_hook(flags.comm_hook);
}

DdpOptions ddp_options(const DdpFlags& flags, Timeline* timeline) {
  return {.mode = parse_ddp_mode(flags.mode),
          .bucket_cap_mb = flags.bucket_cap_mb,
          .first_bucket_cap_mb = flags.first_bucket_cap_mb,
          .last_bucket_cap_mb = flags.last_bucket_cap_mb,
          .bucket_caps_mb = flags.bucket_caps_mb,
          .find_unused_parameters = flags.find_unused_parameters,
          .static_graph = flags.static_graph,
          .broadcast_buffers = flags.broadcast_buffers,
          .timeline = timeline};
}

std::vector<RunTrait> ddp_traits(const DdpFlags& flags) {
  std::string list;
  for (double cap : flags.bucket_caps_mb) list += str(list.empty() ? "" : ",", cap);
  const bool in_buckets = flags.mode == "bucketed" || flags.mode == "overlapped";
  return {
      {"--ddp-mode", in_buckets ? "bucketed or overlapped" : flags.mode},
      {"--bucket-cap-mb", str(flags.bucket_cap_mb)},
      {"--first-bucket-cap-mb", str(first_cap_mb(ddp_options(flags, nullptr)))},
      {"--last-bucket-cap-mb", flags.last_bucket_cap_mb ? str(*flags.last_bucket_cap_mb) : "none"},
      {"--bucket-caps-mb", list.empty() ? "none" : list},
      {"--bucket-plan", flags.bucket_plan.empty() ? "none" : "a file"},
      {"--comm-hook", flags.comm_hook.empty() ? "none" : flags.comm_hook}};
}

BucketPlan read_bucket_plan(const std::string& file, std::span<const ParamSpec> params) {
  return plan_from_json(read_text(file), params, file);
}

void adopt_bucket_plan(const std::string& file, DataParallel& ddp) {
  const std::vector<std::byte> bytes = broadcast_from_rank_zero(ddp.group(), "bucket plan", [&] {
    const std::string text = read_text(file);
    const auto view = std::as_bytes(std::span(text));
    return std::vector<std::byte>(view.begin(), view.end());
  });
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  ddp.adopt_plan(plan_from_json(text, ddp.param_specs(), file));
}

}  // namespace lockstep
