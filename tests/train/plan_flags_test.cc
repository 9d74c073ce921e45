// The flags about cuDNN's plans, and the file that keeps them, with a cuDNN and GPUs that are made
// up.
#include "lockstep/train/plan_flags.h"

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/distributed/comm/single_group.h"
#include "lockstep/distributed/comm/thread_group.h"
#include "lockstep/tests/support/temp_dir.h"
#include "lockstep/train/plan_file.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <string>
#include <vector>

namespace lockstep {
namespace {

using namespace testing;

thread_local const char* gpu = "NVIDIA H200";
PlanOrigin made_up() { return {.library = "cuDNN 9.19.0", .device = gpu}; }

/// While it lives the process has a cuDNN, its own book, and its warnings are kept.
class Setting {
 public:
  Setting() {
    before_ = set_plan_origin(made_up);
    sink_ = set_log_sink([this](LogLevel, std::string_view line) { warnings.emplace_back(line); });
    plan_book().clear();
  }
  ~Setting() {
    plan_book().clear();
    set_time_plans(false);
    set_log_sink(sink_);
    set_plan_origin(before_);
  }
  std::vector<std::string> warnings;

 private:
  PlanOriginSource before_;
  LogSink sink_;
};

const PlanFile kFile{.origin = {"cuDNN 9.19.0", "NVIDIA H200"},
                     .plans = {{"attention 8 12", "7 1=0"}, {"convolution 2 -1", "31 2=13 3=0"}}};

std::string refusal(const std::string& text) {
  try {
    plan_file_from_json(text, "FILE");
    return "";
  } catch (const IoError& error) {
    return error.what();
  }
}

TEST_CASE("a file of plans reads back as it was written") {
  CHECK(plan_file_from_json(to_json(kFile), "f") == kFile);
  const PlanFile none{.origin = {"a \"b\"\n", "\xC3\xA9"}, .plans = {}};
  CHECK(plan_file_from_json(to_json(none), "f") == none);
}

TEST_CASE("a damaged file is refused in one line, which says what helps") {
  const std::string remedy = "; remove the file, and --cudnn-benchmark makes it anew";
  const std::string whole = to_json(kFile);
  for (size_t bytes = 0; bytes + 2 < whole.size(); ++bytes) {
    const std::string cut = refusal(whole.substr(0, bytes));
    CHECK(cut.find("FILE: cuDNN plans: wanted JSON, got something else at byte ") == 0);
    CHECK(cut.find(remedy) != std::string::npos);
    CHECK(cut.find('\n') == std::string::npos);
  }
  const auto check = [&](const std::string& text, const std::string& wanted) {
    CHECK(refusal(text) == "FILE: cuDNN plans: wanted " + wanted + remedy);
  };
  check("[]", "an object with format, library, device and plans, got an array");
  check("{}", "\"format\", got none");
  check(R"({"format": 2})", "format 1, got 2");
  const std::string begin = R"({"format": 1, "library": "c", )";
  check(R"({"format": 1, "library": 9})", "a text of at most 1024 bytes as library, got 9");
  check(begin + "\"plans\": {}}", "\"device\", got none");
  check(begin + R"("device": "d", "plans": []})", "an object as plans, got an array");
  check(begin + R"("device": "d", "plans": {"p": 1}})",
        "a text of at most 1024 bytes as plan, got 1");
  check(begin + R"("device": "d", "plans": {"p": {"q": "r"}}})",
        "an object with plans, got deeper nesting");
  CHECK(refusal(begin + R"("device": "d", "plans": {"p": ")" + std::string(1025, 'x') + "\"}}") !=
        "");
  CHECK(refusal(begin + R"("device": "d", "plans": {")" + std::string(1025, 'x') + "\": \"p\"}}") !=
        "");
  CHECK(refusal(std::string(100000, '[')).find("deeper nesting") != std::string::npos);
}

TEST_CASE("a file beyond all bounds is refused before it is read") {
  const TempDir dir;
  write_file(dir / "large", "");
  std::filesystem::resize_file(dir / "large", (1 << 24) + 1);
  CHECK_THROWS_AS(read_plan_file(dir / "large"), IoError);
}

TEST_CASE("the flags want a GPU") {
  CHECK(wrong_plan_flags({}, Device::cpu()) == "");
  CHECK(wrong_plan_flags({.benchmark = true, .file = "f"}, Device::cuda()) == "");
  CHECK(wrong_plan_flags({.benchmark = true}, Device::cpu()) ==
        "--cudnn-benchmark is for a GPU; it wants --device cuda");
  CHECK(wrong_plan_flags({.file = "f"}, Device::cpu()) ==
        "--cudnn-plans is for a GPU; it wants --device cuda");
}

TEST_CASE("before there are ranks: a file that cannot serve is an error") {
  const TempDir dir;
  CHECK_NOTHROW(check_plan_file({.benchmark = true}));
  CHECK_NOTHROW(check_plan_file({.benchmark = true, .file = dir / "new"}));
  CHECK_FALSE(std::filesystem::exists(dir / "new"));
  CHECK(std::filesystem::is_empty(dir.path()));
  CHECK_THROWS_WITH_AS(check_plan_file({.file = dir / "new"}),
                       ("--cudnn-plans " + (dir / "new") +
                        ": wanted the plans of an earlier run, got no such file; "
                        "--cudnn-benchmark makes it")
                           .c_str(),
                       IoError);
  CHECK_THROWS_AS(check_plan_file({.benchmark = true, .file = dir / "no/folder"}), IoError);
  write_file(dir / "damaged", "{");
  CHECK_THROWS_AS(check_plan_file({.benchmark = true, .file = dir / "damaged"}), IoError);
}

TEST_CASE("what a run finds is in the file, and the next run finds it there") {
  const TempDir dir;
  const PlanFlags flags{.benchmark = true, .file = dir / "plans.json"};
  {
    const Setting setting;
    const auto group = make_single_group();
    KeptPlans plans(flags, *group);
    CHECK(time_plans());
    CHECK(plans.summary() == "");
    plan_book().note("p", "1");
    plan_book().note("q", "2");
    CHECK(plans.summary() ==
          "cuDNN's plans for 2 shapes timed on this rank, and kept in " + flags.file);
    CHECK(setting.warnings.empty());
  }
  CHECK(read_plan_file(flags.file) == PlanFile{made_up(), {{"p", "1"}, {"q", "2"}}});
  {
    const Setting setting;
    const auto group = make_single_group();
    const auto taken = read_text(flags.file);
    {
      const PlanFlags only_read{.file = flags.file};
      KeptPlans plans(only_read, *group);
      CHECK_FALSE(time_plans());
      CHECK(plan_book().find("q") == "2");
      CHECK(plans.summary() == "");
    }
    CHECK(read_text(flags.file) == taken);
    KeptPlans plans(flags, *group);
    plan_book().note("r", "3");
  }
  CHECK(read_plan_file(flags.file).plans == PlanBook::Entries{{"p", "1"}, {"q", "2"}, {"r", "3"}});
}

TEST_CASE("while it runs the file is written once nothing new is found") {
  const TempDir dir;
  const PlanFlags flags{.benchmark = true, .file = dir / "plans.json"};
  const Setting setting;
  const auto group = make_single_group();
  KeptPlans plans(flags, *group);
  plans.look();
  CHECK_FALSE(std::filesystem::exists(flags.file));
  plan_book().note("p", "1");
  plans.look();
  CHECK_FALSE(std::filesystem::exists(flags.file));
  plans.look();
  CHECK(read_plan_file(flags.file).plans.size() == 1);
  std::filesystem::remove(flags.file);
  plans.look();
  CHECK_FALSE(std::filesystem::exists(flags.file));  // nothing new: not again
  plan_book().note("q", "1");
  plans.look();
  plans.look();
  CHECK(read_plan_file(flags.file).plans.size() == 2);
}

TEST_CASE("a file of another cuDNN or GPU is not used, and one line says so") {
  const TempDir dir;
  const std::string path = dir / "plans.json";
  for (const PlanOrigin& other :
       {PlanOrigin{"cuDNN 9.1.0", "NVIDIA H200"}, PlanOrigin{"cuDNN 9.19.0", "NVIDIA A100"}}) {
    for (const bool benchmark : {false, true}) {
      write_file(path, to_json({other, kFile.plans}));
      const Setting setting;
      {
        const auto group = make_single_group();
        const PlanFlags flags{.benchmark = benchmark, .file = path};
        KeptPlans plans(flags, *group);
        CHECK(plan_book().entries().empty());
        REQUIRE(setting.warnings.size() == 1);
        CHECK(setting.warnings[0] ==
              "--cudnn-plans " + path + " is of " + other.library + " on " + other.device +
                  ", this is cuDNN 9.19.0 on NVIDIA H200; its plans are not used" +
                  (benchmark ? ", and those of now replace them"
                             : "; --cudnn-benchmark finds others"));
        if (benchmark) plan_book().note("p", "1");
      }
      CHECK(read_plan_file(path).origin == (benchmark ? made_up() : other));
    }
  }
}

TEST_CASE("rank 0's file serves all ranks, and rank 0 alone writes") {
  const TempDir dir;
  const PlanFlags flags{.benchmark = true, .file = dir / "plans.json"};
  write_file(flags.file, to_json(kFile));
  const Setting setting;
  spawn(3, [&](ProcessGroup& group) {
    gpu = group.rank() == 2 ? "NVIDIA A100" : "NVIDIA H200";
    // Another path, where there is nothing: as on a machine of its own.
    const PlanFlags own{.benchmark = true,
                        .file = group.rank() == 0 ? flags.file : dir / "elsewhere"};
    KeptPlans plans(own, group);
    group.barrier()->wait();
    check(plan_book().find("attention 8 12") == "7 1=0", "not taken");
    if (group.rank() != 0) plan_book().note(str("new ", group.rank()), "1");
    group.barrier()->wait();
  });
  CHECK_FALSE(std::filesystem::exists(dir / "elsewhere"));
  CHECK(read_plan_file(flags.file).plans.size() == 4);
  REQUIRE(setting.warnings.size() == 1);
  CHECK(setting.warnings[0].find("this is cuDNN 9.19.0 on NVIDIA A100") != std::string::npos);
}

TEST_CASE("rank 0's damaged file ends all ranks") {
  const TempDir dir;
  write_file(dir / "plans.json", "{");
  const Setting setting;
  int refused = 0;
  std::vector<std::string> errors(3);
  try {
    spawn(3, [&](ProcessGroup& group) {
      const PlanFlags flags{.file = dir / "plans.json"};
      try {
        KeptPlans plans(flags, group);
      } catch (const Error& error) {
        errors[static_cast<size_t>(group.rank())] = error.what();
        throw;
      }
    });
  } catch (const Error&) {
    ++refused;
  }
  CHECK(refused == 1);
  CHECK(errors[0].find("cuDNN plans: wanted JSON") != std::string::npos);
  for (const size_t rank : {size_t{1}, size_t{2}}) {
    CHECK(errors[rank].find("rank 0 failed") != std::string::npos);
  }
}

TEST_CASE("a file that cannot be written at the end is a warning") {
  const TempDir dir;
  std::filesystem::create_directory(dir / "folder");
  const PlanFlags flags{.benchmark = true, .file = dir / "folder/plans.json"};
  const Setting setting;
  {
    const auto group = make_single_group();
    KeptPlans plans(flags, *group);
    std::filesystem::remove_all(dir / "folder");
    plan_book().note("p", "1");
    plans.look();
    plans.look();
    plans.look();
  }
  REQUIRE(setting.warnings.size() == 1);
  CHECK(setting.warnings[0].find("--cudnn-plans: ") == 0);
  CHECK(setting.warnings[0].find("; the plans are not kept") != std::string::npos);
}

}  // namespace
}  // namespace lockstep
