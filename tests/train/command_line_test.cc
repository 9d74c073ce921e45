#include "lockstep/train/command_line.h"

#include "lockstep/tests/support/temp_dir.h"

#include <doctest/doctest.h>
#include <CLI/CLI.hpp>

namespace lockstep {
namespace {

struct Options {
  CLI::App app{"A program.", "program"};
  int64_t batch_size = 1;
  double lr = 0.5;
  bool nesterov = false;

  Options() {
    app.add_option("--batch-size", batch_size)->capture_default_str();
    app.add_option("--lr", lr)->capture_default_str();
    app.add_flag("--nesterov,!--no-nesterov", nesterov);
    add_config_option(app);
  }
  std::optional<int> parse(std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "program");
    return parse_command_line(
        app, normalize_flags(static_cast<int>(arguments.size()), arguments.data()));
  }
};

TEST_CASE("both spellings of a flag") {
  for (const std::vector<const char*>& arguments :
       {std::vector<const char*>{"--batch_size", "8"}, {"--batch_size=8"}, {"--batch-size=8"}}) {
    Options options;
    CHECK(!options.parse(arguments));
    CHECK(options.batch_size == 8);
  }
  const char* argv[] = {"p", "--a_b=c_d", "e_f", "--", "--g_h"};
  CHECK(normalize_flags(5, argv) == std::vector<std::string>{"--a-b=c_d", "e_f", "--", "--g_h"});
  CHECK(normalize_flags(0, argv).empty());
}

TEST_CASE("the command line comes before the config file, which comes before the defaults") {
  const testing::TempDir dir;
  const std::string path = dir / "run.toml";
  testing::write_file(path, "# a comment\nbatch_size = 16\nlr = 0.25\nnesterov = true\n");
  Options options;
  CHECK(!options.parse({"--config", path.c_str(), "--lr", "0.125"}));
  CHECK(options.batch_size == 16);
  CHECK(options.lr == 0.125);
  CHECK(options.nesterov);
  const auto settings = settings_of(options.app);
  CHECK(settings[0] == std::pair<std::string, std::string>{"batch-size", "16"});
  CHECK(settings[1] == std::pair<std::string, std::string>{"lr", "0.125"});
}

TEST_CASE("usage errors end with 2, help with 0") {
  const testing::TempDir dir;
  const std::string path = dir / "run.toml";
  testing::write_file(path, "no_such_option = 16\n");
  CHECK(Options().parse({"--no-such-flag"}) == 2);
  CHECK(Options().parse({"--batch-size", "many"}) == 2);
  CHECK(Options().parse({"--batch-size"}) == 2);
  CHECK(Options().parse({"stray"}) == 2);
  CHECK(Options().parse({"--config", path.c_str()}) == 2);
  CHECK(Options().parse({"--config", (dir / "none.toml").c_str()}) == 2);
  CHECK(Options().parse({"--help"}) == 0);
}

}  // namespace
}  // namespace lockstep
