// What the trainers' command lines have in common, on top of CLI11.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace CLI {
class App;
}

namespace lockstep {

/// The arguments after the program's name, with '-' for '_' in the names of long flags:
/// --batch_size=8 is --batch-size=8. Values, and everything after "--", stay as they are.
std::vector<std::string> normalize_flags(int argc, const char* const* argv);

/// Adds --config FILE: TOML or INI lines `batch-size = 8`; '_' and '-' are the same there too. What
/// the command line says comes before it. Unknown names in the file are errors.
void add_config_option(CLI::App& app);

/// For CLI::Option::check(): empty, or what is wrong with the text.
using FlagCheck = std::function<std::string(const std::string&)>;
/// Ranges are given in words, because CLI11's own messages print numbers such as 9.22337e+18.
FlagCheck within(double least, double most, const std::string& what);
/// An empty path comes from a variable that is not set; taken for "none", it would drop a whole
/// run.
FlagCheck not_empty();

/// Parses, and returns the exit code when the program has nothing more to do: 0 after --help, 2
/// after a usage error, which is told on one line of standard error. Options that have not, those
/// of sub-commands too, get the values of now as the defaults that --help shows. `wrong` is called
/// when each option by itself is right, and gives what is wrong with them together, or nothing.
///
/// For tests, LOCKSTEP_COMMAND_LINE in the environment makes every program stop here: `describe`
/// prints the options and sub-commands as JSON, `check` the values in force if the command line is
/// right, and `values` the same without calling `wrong`.
std::optional<int> parse_command_line(CLI::App& app, std::vector<std::string> arguments,
                                      const std::function<std::string()>& wrong = {});

/// Every option that takes a value, with the value in force, for run.json.
std::vector<std::pair<std::string, std::string>> settings_of(const CLI::App& app);

}  // namespace lockstep
