#include "lockstep/train/ddp_flags.h"

#include "lockstep/base/error.h"
#include "lockstep/distributed/reduce/plan_json.h"
#include "lockstep/tests/support/temp_dir.h"
#include "lockstep/train/command_line.h"

#include <doctest/doctest.h>
#include <CLI/CLI.hpp>

#include <algorithm>

namespace lockstep {
namespace {

struct Program {
  CLI::App app{"A program.", "program"};
  DdpFlags flags;
  int64_t epochs = 1;

  Program() {
    app.add_option("--epochs", epochs);
    add_ddp_flags(app, flags);
    add_config_option(app);
    for (CLI::Option* option : app.get_options()) {
      if (option->get_items_expected_max() > 0 && option->get_single_name() != "help") {
        option->capture_default_str();
      }
    }
  }
  std::optional<int> parse(std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "program");
    return parse_command_line(
        app, normalize_flags(static_cast<int>(arguments.size()), arguments.data()));
  }
  std::string setting(const std::string& name) const {
    for (const auto& [key, value] : settings_of(app)) {
      if (key == name) return value;
    }
    return "no such setting";
  }
};

DdpFlags parsed(const std::vector<const char*>& arguments) {
  Program program;
  REQUIRE(!program.parse(arguments));
  return program.flags;
}

bool differ(const std::vector<const char*>& a, const std::vector<const char*>& b) {
  return ddp_traits(parsed(a)) != ddp_traits(parsed(b));
}

TEST_CASE("what the flags say is what DataParallel is told") {
  const DdpOptions defaults = ddp_options(parsed({}), nullptr);
  CHECK(defaults.mode == DdpMode::kOverlapped);
  CHECK(defaults.bucket_cap_mb == 25);
  CHECK(first_cap_mb(defaults) == 1);
  CHECK(!defaults.last_bucket_cap_mb);
  CHECK(defaults.bucket_caps_mb.empty());
  CHECK(!defaults.find_unused_parameters);
  CHECK(!defaults.static_graph);
  CHECK(defaults.broadcast_buffers);

  const DdpOptions caps =
      ddp_options(parsed({"--bucket-cap-mb", "0", "--first-bucket-cap-mb", "0.5",
                          "--last_bucket_cap_mb=0", "--ddp-mode", "bucketed",
                          "--find-unused-parameters", "--static-graph", "--no-broadcast-buffers"}),
                  nullptr);
  CHECK(caps.mode == DdpMode::kBucketed);
  CHECK(caps.bucket_cap_mb == 0);
  CHECK(first_cap_mb(ddp_options(parsed({"--bucket-cap-mb", "0"}), nullptr)) == 0);
  CHECK(first_cap_mb(ddp_options(parsed({"--bucket-cap-mb", "2"}), nullptr)) == 1);
  CHECK(caps.first_bucket_cap_mb == 0.5);
  CHECK(caps.last_bucket_cap_mb == 0);
  CHECK(caps.find_unused_parameters);
  CHECK(caps.static_graph);
  CHECK(!caps.broadcast_buffers);
}

TEST_CASE("a communication hook") {
  CHECK(comm_hook(parsed({})) == nullptr);
  CHECK(comm_hook(parsed({"--comm-hook", "topk:ratio=0.5"})) != nullptr);
  for (const char* wrong : {"", "gzip", "topk:k=3", "topk:ratio=2"}) {
    CAPTURE(wrong);
    CHECK(Program().parse({"--comm-hook", wrong}) == 2);
  }
  CHECK(wrong_ddp_flags(parsed({"--ddp-mode", "local", "--comm-hook", "bf16"})) != nullptr);
  CHECK(wrong_ddp_flags(parsed({"--ddp-mode", "naive", "--comm-hook", "bf16"})) == nullptr);
}

TEST_CASE("a list of caps") {
  Program program;
  REQUIRE(!program.parse({"--bucket-caps-mb", "1,2.5,25", "--epochs", "3"}));
  CHECK(program.flags.bucket_caps_mb == std::vector<double>{1, 2.5, 25});
  CHECK(program.epochs == 3);
  CHECK(program.setting("bucket-caps-mb") == "1 2.5 25");
  CHECK(parsed({"--bucket-caps-mb=0"}).bucket_caps_mb == std::vector<double>{0});
  for (const std::string wrong : {",", "", "1,-2", "1,x", "1,nan", "1 2"}) {
    CAPTURE(wrong);
    CHECK(Program().parse({"--bucket-caps-mb", wrong.c_str()}) == 2);
  }
  const testing::TempDir dir;
  testing::write_file(dir / "run.toml", "bucket-caps-mb = [1, 5]\nstatic_graph = true\n");
  const DdpFlags flags = parsed({"--config", (dir / "run.toml").c_str()});
  CHECK(flags.bucket_caps_mb == std::vector<double>{1, 5});
  CHECK(flags.static_graph);
}

TEST_CASE("flags that would leave another without effect are refused") {
  for (const std::vector<const char*>& arguments :
       {std::vector<const char*>{"--bucket-caps-mb", "1", "--bucket-cap-mb", "2"},
        {"--bucket-caps-mb", "1", "--first-bucket-cap-mb", "2"},
        {"--bucket-plan", "f", "--bucket-cap-mb", "2"},
        {"--bucket-plan", "f", "--last-bucket-cap-mb", "2"},
        {"--bucket-plan", "f", "--bucket-caps-mb", "2"},
        {"--bucket-plan", ""},
        {"--last-bucket-cap-mb", "-1"},
        {"--ddp-mode", "fast"}}) {
    CAPTURE(arguments[1]);
    CHECK(Program().parse(arguments) == 2);
  }
  CHECK(wrong_ddp_flags(parsed({"--ddp-mode", "naive", "--bucket-plan", "f"})) != nullptr);
  CHECK(wrong_ddp_flags(parsed({"--bucket-plan", "f"})) == nullptr);
}

TEST_CASE("a run may not go on with flags that give another order of adding up") {
  CHECK(differ({}, {"--bucket-cap-mb", "24"}));
  CHECK(differ({}, {"--first-bucket-cap-mb", "2"}));
  CHECK(differ({}, {"--last-bucket-cap-mb", "2"}));
  CHECK(differ({"--last-bucket-cap-mb", "1"}, {"--last-bucket-cap-mb", "2"}));
  CHECK(differ({}, {"--bucket-caps-mb", "1,25"}));
  CHECK(differ({"--bucket-caps-mb", "1"}, {"--bucket-caps-mb", "1,1"}));
  CHECK(differ({}, {"--bucket-plan", "f"}));
  CHECK(differ({}, {"--comm-hook", "topk"}));
  CHECK(differ({"--comm-hook", "topk"}, {"--comm-hook", "topk:ratio=0.1"}));
  CHECK(differ({}, {"--ddp-mode", "naive"}));
  CHECK(differ({}, {"--ddp-mode", "local"}));
  CHECK(!differ({}, {"--ddp-mode", "bucketed"}));
  CHECK(!differ({}, {"--bucket-cap-mb", "25.0", "--no-broadcast-buffers"}));
}

TEST_CASE("a plan from a file") {
  const testing::TempDir dir;
  const std::vector<ParamSpec> params = {{"a", {4}}, {"b", {4}}};
  const BucketPlan plan = plan_buckets(params, {0, 0});
  testing::write_file(dir / "plan.json", to_json(plan, params));
  CHECK(read_bucket_plan(dir / "plan.json", params) == plan);
  testing::write_file(dir / "plan.json", "{}");
  CHECK_THROWS_WITH_AS(read_bucket_plan(dir / "plan.json", params),
                       doctest::Contains("plan.json: bucket plan: wanted \"format\""), IoError);
  CHECK_THROWS_AS(read_bucket_plan(dir / "none.json", params), IoError);
}

}  // namespace
}  // namespace lockstep
