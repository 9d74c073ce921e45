#include "lockstep/train/command_line.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string_view>

namespace lockstep {
namespace {

void dashes_for_underscores(std::string& text, size_t begin, size_t end) {
  std::replace(text.begin() + static_cast<std::ptrdiff_t>(begin),
               text.begin() + static_cast<std::ptrdiff_t>(end), '_', '-');
}

class ConfigFile : public CLI::ConfigTOML {
 public:
  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    std::vector<CLI::ConfigItem> items = CLI::ConfigTOML::from_config(input);
    for (CLI::ConfigItem& item : items) dashes_for_underscores(item.name, 0, item.name.size());
    return items;
  }
};

/// What a file or an argument holds may be quoted in a message, and may be anything.
std::string one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

using Json = nlohmann::ordered_json;

bool takes_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }
bool is_help(const CLI::Option& option) {
  return option.check_lname("help") || option.check_lname("version");
}

/// Makes --help show what is in force when an option is not given.
void show_defaults(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    if (!takes_value(*option) || is_help(*option) || option->get_required()) continue;
    if (!option->get_default_str().empty() || option == app.get_config_ptr()) continue;
    option->capture_default_str();
    if (option->get_default_str() == "[]") option->default_str("");  // an empty list
  }
  for (CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    show_defaults(*command);
  }
}

Json describe(const CLI::App& app) {
  Json json{{"name", app.get_name()}, {"options", Json::array()}, {"commands", Json::array()}};
  for (const CLI::Option* option : app.get_options()) {
    std::vector<std::string> names;
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
    json["options"].push_back({{"name", option->get_single_name()},
                               {"names", names},
                               {"takes_value", takes_value(*option)},
                               {"required", option->get_required()},
                               {"default", option->get_default_str()}});
  }
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    json["commands"].push_back(describe(*command));
  }
  return json;
}

/// What the program's own variables hold now.
Json values_in_force(CLI::App& app) {
  Json json = Json::object();
  for (CLI::Option* option : app.get_options()) {
    if (!takes_value(*option) || is_help(*option)) continue;
    option->capture_default_str();
    const std::string value = option->get_default_str();
    json[option->get_single_name()] = value == "[]" ? "" : value;
  }
  for (CLI::App* command : app.get_subcommands()) {
    json[command->get_name()] = values_in_force(*command);
  }
  return json;
}

}  // namespace

std::vector<std::string> normalize_flags(int argc, const char* const* argv) {
  std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  for (std::string& argument : arguments) {
    if (argument == "--") break;
    if (!argument.starts_with("--")) continue;
    dashes_for_underscores(argument, 2, std::min(argument.find('='), argument.size()));
  }
  return arguments;
}

void add_config_option(CLI::App& app) {
  app.config_formatter(std::make_shared<ConfigFile>());
  app.set_config("--config", "",
                 "Read options from a TOML or INI file; the command line overrides it");
  app.allow_config_extras(CLI::config_extras_mode::error);
}

FlagCheck within(double least, double most, const std::string& what) {
  return [=](const std::string& text) -> std::string {
    double value = 0;
    if (CLI::detail::lexical_cast(text, value) && value >= least && value <= most) return "";
    return "wanted " + what + ", got " + text;
  };
}

FlagCheck not_empty() {
  return [](const std::string& text) -> std::string {
    return text.empty() ? "wanted a path, got none" : "";
  };
}

std::optional<int> parse_command_line(CLI::App& app, std::vector<std::string> arguments,
                                      const std::function<std::string()>& wrong) {
  show_defaults(app);
  const char* instead = std::getenv("LOCKSTEP_COMMAND_LINE");
  const std::string_view task = instead != nullptr ? instead : "";
  if (task == "describe") {
    std::printf("%s\n", describe(app).dump().c_str());
    return 0;
  }
  std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the back
  try {
    app.parse(std::move(arguments));
    const std::string together = wrong && task != "values" ? wrong() : "";
    if (!together.empty()) {
      std::fprintf(stderr, "%s: %s\n", app.get_name().c_str(), one_line(together).c_str());
      return 2;
    }
    if (task != "check" && task != "values") return std::nullopt;
    std::printf("%s\n", values_in_force(app).dump().c_str());
    return 0;
  } catch (const CLI::Success& done) {
    return app.exit(done);                   // --help
  } catch (const CLI::ConfigError& error) {  // of programs that have a --config
    std::fprintf(stderr, "%s: --config %s: %s (no such option, or no TOML or INI)\n",
                 app.get_name().c_str(), one_line(app.get_config_ptr()->as<std::string>()).c_str(),
                 one_line(error.what()).c_str());
    return 2;
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "%s: %s; --help lists the options\n", app.get_name().c_str(),
                 one_line(error.what()).c_str());
    return 2;
  }
}

std::vector<std::pair<std::string, std::string>> settings_of(const CLI::App& app) {
  std::vector<std::pair<std::string, std::string>> settings;
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = option->get_single_name();
    if (is_help(*option) || name == "config") continue;
    std::string value = option->get_default_str();
    if (option->count() > 0) {
      value.clear();
      for (const std::string& part : option->results()) value += (value.empty() ? "" : " ") + part;
    }
    settings.emplace_back(name, value);
  }
  return settings;
}

}  // namespace lockstep
