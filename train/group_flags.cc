#include "lockstep/train/group_flags.h"

#include "lockstep/base/error.h"
#include "lockstep/train/command_line.h"

#include <CLI/CLI.hpp>

#include <cmath>
#include <utility>

namespace lockstep {
namespace {

FlagCheck seconds() { return within(0.001, 86400, "a number of seconds from 0.001 to 86400"); }

std::chrono::milliseconds milliseconds_of(double seconds) {
  return std::chrono::milliseconds(std::llround(seconds * 1000));
}

CLI::Validator a_link() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        try {
          parse_link(text);
          return "";
        } catch (const ArgumentError& error) {
          return error.what();
        }
      },
      "");
}

}  // namespace

void add_group_flags(CLI::App& app, GroupFlags& flags) {
  app.add_option("--init-method", flags.init_method,
                 "Where the ranks meet: tcp://host:port, or file:///path in a folder that all see; "
                 "not given: as the launcher tells");
  app.add_option(
      "--interface", flags.interface,
      "Network interface for the ranks' data, by name or address; not given: by the route to "
      "rank 0");
  app.add_flag("--canonical", flags.canonical,
               "Sum gradients in the order of the ranks: the same bits for all caps, modes and "
               "backends, at some cost");
  app.add_option("--emulated-link", flags.emulated_link,
                 "Let communication take as long as on this link: "
                 "1gbit,latency=50us,jitter=0.1,straggler=1:20ms")
      ->check(a_link());
  app.add_option("--round-robin", flags.round_robin, "Spread collectives over so many groups")
      ->check(CLI::Range(1, 64));
  app.add_flag("--nccl-register-buffers", flags.nccl_register_buffers,
               "Let NCCL reduce gradients where they lie, in memory that it registers");
  app.add_option("--start-timeout", flags.start_timeout,
                 "Seconds to wait for the other ranks to start")
      ->check(seconds());
  app.add_option("--timeout", flags.timeout,
                 "Seconds that one collective may take, waiting for the slowest rank included; the "
                 "time between collectives does not count")
      ->check(seconds());
  app.add_option("--stall-warning", flags.stall_warning,
                 "Seconds in one collective after which a line names the ranks that are waited for")
      ->check(seconds());
}

ProcessGroupOptions process_group_options(const GroupFlags& flags) {
  return {.start_timeout = milliseconds_of(flags.start_timeout),
          .timeout = milliseconds_of(flags.timeout),
          .stall_warning = milliseconds_of(flags.stall_warning),
          .interface = flags.interface,
          .init_method = flags.init_method,
          .nccl_register_buffers = flags.nccl_register_buffers};
}

std::string wrong_group_flags(const GroupFlags& flags, Device device) {
  return flags.nccl_register_buffers && device.is_cpu()
             ? "--nccl-register-buffers is for GPUs; it wants --device cuda"
             : "";
}

void check_group_flags(const GroupFlags& flags, int world) {
  if (flags.emulated_link.empty()) return;
  const int straggler = parse_link(flags.emulated_link).straggler;
  check(straggler < world, "--emulated-link: the straggler is rank ", straggler,
        ", but the ranks are 0 to ", world - 1);
}

GroupOptions group_options(const GroupFlags& flags) {
  GroupOptions options{.canonical = flags.canonical, .round_robin = flags.round_robin};
  if (!flags.emulated_link.empty()) options.link = parse_link(flags.emulated_link);
  return options;
}

std::unique_ptr<ProcessGroup> wrapped(std::unique_ptr<ProcessGroup> group,
                                      const GroupFlags& flags) {
  return wrap_process_group(std::move(group), group_options(flags));
}

std::vector<RunTrait> group_traits(const GroupFlags& flags) {
  return {{"--canonical", flags.canonical ? "on" : "off"}};
}

}  // namespace lockstep
