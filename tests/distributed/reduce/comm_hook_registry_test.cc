// Communication hooks by name.
#include "lockstep/distributed/reduce/hooks/registry.h"

#include "lockstep/distributed/reduce/hooks/topk_hook.h"

#include <doctest/doctest.h>

namespace lockstep {
namespace {

std::string error_of(const std::string& text,
                     const CommHookRegistry& registry = builtin_comm_hooks()) {
  try {
    parse_comm_hook(text, registry);
  } catch (const ArgumentError& e) {
    return e.what();
  }
  return "";
}

TEST_CASE("parse_comm_hook: what there is") {
  for (const char* text : {"allreduce", "bf16", "fp16", "fp16:overflow=inf", "fp16:overflow=error",
                           "noop", "topk", "topk:ratio=0.5", "topk:ratio=1e-3"}) {
    CAPTURE(text);
    CHECK(parse_comm_hook(text) != nullptr);
  }
  const auto topk = std::dynamic_pointer_cast<TopKHook>(parse_comm_hook("topk:ratio=0.5"));
  REQUIRE(topk != nullptr);
  CHECK(topk->chosen_of(10) == 5);
  CHECK(std::dynamic_pointer_cast<TopKHook>(parse_comm_hook("topk"))->chosen_of(1000) == 10);
}

TEST_CASE("parse_comm_hook: errors say what there is") {
  const std::string names = "comm hook: wanted one of allreduce, bf16, fp16, noop, topk; got ";
  CHECK(error_of("") == names + "''");
  CHECK(error_of("top_k:ratio=1") == names + "'top_k'");
  CHECK(error_of("topk:k=3") == "comm hook topk: there is no option 'k'; it has ratio");
  CHECK(error_of("bf16:ratio=1") == "comm hook bf16: there is no option 'ratio'; it has none");
  CHECK(error_of("fp16:overflow=maybe") ==
        "comm hook fp16: overflow: wanted one of error, inf; got 'maybe'");
  for (const char* value : {"x", "0.1x", "nan", "inf", " 1", "1e999"}) {
    CHECK(error_of(str("topk:ratio=", value)) ==
          str("comm hook topk: ratio: wanted a number, got '", value, "'"));
  }
  CHECK(error_of("topk:ratio=0") == "comm hook topk: wanted a ratio over 0 and at most 1, got 0");
  CHECK(error_of("topk:ratio=1.5") ==
        "comm hook topk: wanted a ratio over 0 and at most 1, got 1.5");
  CHECK(error_of("topk:ratio") == "comm hook topk: wanted key=value, got 'ratio'");
  CHECK(error_of("topk:ratio=") == "comm hook topk: wanted key=value, got 'ratio='");
  CHECK(error_of("topk:=1") == "comm hook topk: wanted key=value, got '=1'");
  CHECK(error_of("topk:,ratio=1") == "comm hook topk: wanted key=value, got ''");
  CHECK(error_of("topk:ratio=1,") == "comm hook topk: wanted key=value after the last ','");
  CHECK(error_of("topk:ratio=1,ratio=1") == "comm hook topk: ratio is given twice");
}

TEST_CASE("parse_comm_hook: a user's own") {
  struct Own final : CommHook {
    Own(double a, std::string b) : first(a), second(std::move(b)) {}
    int64_t reduce(const GradBucket&, ProcessGroup&) override { return 0; }
    double first;
    std::string second;
  };
  CommHookRegistry registry = builtin_comm_hooks();
  registry["own"] = [](CommHookOptions& options) {
    return std::make_shared<Own>(options.number("first", 3), options.choice("second", {"b", "c"}));
  };
  const auto own =
      std::dynamic_pointer_cast<Own>(parse_comm_hook("own:second=c,first=-2.5", registry));
  REQUIRE(own != nullptr);
  CHECK(own->first == -2.5);
  CHECK(own->second == "c");
  CHECK(error_of("own:third=1", registry) ==
        "comm hook own: there is no option 'third'; it has first, second");
  CHECK(parse_comm_hook("topk", registry) != nullptr);
  CHECK(error_of("own") != "");  // the built-in ones are as they were
  // It has no state, so it takes none.
  own->load_state({});
  const NamedTensor state[] = {{"residual.w", Tensor()}};
  CHECK_THROWS_WITH_AS(own->load_state(state), doctest::Contains("residual.w"), ArgumentError);
}

}  // namespace
}  // namespace lockstep
