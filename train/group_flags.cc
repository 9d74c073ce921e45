#include "lockstep/train/group_flags.h"

#include "lockstep/base/error.h"

#include <CLI/CLI.hpp>

#include <utility>

namespace lockstep {
namespace {

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
}

ProcessGroupOptions process_group_options(const GroupFlags& flags) {
  return {.interface = flags.interface, .init_method = flags.init_method};
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
