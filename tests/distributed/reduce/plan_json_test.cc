#include "lockstep/distributed/reduce/plan_json.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace lockstep {
namespace {

const std::vector<ParamSpec> kParams = {{"conv.weight", {4}, DType::kF32},
                                        {"scale", {2}, DType::kF64},
                                        {"fc.weight", {3}, DType::kF32}};
const BucketPlan kPlan{{{DType::kF32, {2, 0}, 28}, {DType::kF64, {1}, 16}}};

BucketPlan parse(const std::string& text) { return plan_from_json(text, kParams, "plan.json"); }

TEST_CASE("a plan as JSON names its parameters") {
  CHECK(to_json(kPlan, kParams) == R"({
  "format": 1,
  "buckets": [
    {
      "dtype": "f32",
      "bytes": 28,
      "params": [
        "fc.weight",
        "conv.weight"
      ]
    },
    {
      "dtype": "f64",
      "bytes": 16,
      "params": [
        "scale"
      ]
    }
  ]
}
)");
  CHECK(parse(to_json(kPlan, kParams)) == kPlan);
}

TEST_CASE("a plan written by hand needs the names alone") {
  const BucketPlan plan =
      parse(R"({"format": 1, "buckets": [{"params": ["scale"]}, {"params": ["conv.weight"]},
                {"params": ["fc.weight"], "note": "kept"}]})");
  REQUIRE(plan.buckets.size() == 3);
  CHECK(plan.buckets[0] == Bucket{DType::kF64, {1}, 16});
  CHECK(plan.buckets[2] == Bucket{DType::kF32, {2}, 12});
}

TEST_CASE("names with quotes, blanks, line breaks and letters beyond ASCII come back") {
  const std::vector<ParamSpec> params = {{"a \"b\"\n\\", {1}}, {"größe", {1}}, {"", {1}}};
  const BucketPlan plan = plan_buckets(params, {});
  CHECK(plan_from_json(to_json(plan, params), params, "f") == plan);
  const std::vector<ParamSpec> latin1 = {
      {"gr\xf6\xdf"
       "e",
       {1}}};
  CHECK_THROWS_WITH_AS(to_json(plan_buckets(latin1, {}), latin1), doctest::Contains("UTF-8"),
                       ArgumentError);
}

TEST_CASE("what is no plan of these parameters is refused with the file and what was wanted") {
  const auto refuses = [](const std::string& text, const std::string& message) {
    CAPTURE(text.substr(0, 200));
    CHECK_THROWS_WITH_AS(parse(text), doctest::Contains(message.c_str()), IoError);
    CHECK_THROWS_WITH_AS(parse(text), doctest::Contains("plan.json: bucket plan: "), IoError);
  };
  const auto buckets = [](const std::string& list) {
    return "{\"format\": 1, \"buckets\": [" + list + "]}";
  };
  const std::string f32s = R"({"params": ["fc.weight", "conv.weight"]})";
  const std::string f64s = R"({"params": ["scale"]})";
  CHECK_NOTHROW(parse(buckets(f32s + "," + f64s)));

  refuses("", "wanted JSON, got something else at byte");
  refuses("{\"format\": 1,", "wanted JSON");
  refuses(buckets(f32s) + "}", "wanted JSON");
  refuses("\xff\xfe", "wanted JSON");
  refuses("{\"format\": 1e999}", "wanted JSON, got a number");
  refuses("[]", "wanted an object with format and buckets, got an array");
  refuses("{}", "wanted \"format\", got none");
  refuses("{\"format\": 1}", "wanted \"buckets\", got none");
  refuses("{\"format\": 2, \"buckets\": []}", "wanted format 1, got 2");
  refuses("{\"format\": \"1\", \"buckets\": []}", "wanted format 1, got \"1\"");
  refuses("{\"format\": 1, \"buckets\": {}}", "wanted an array of buckets, got an object");
  refuses(buckets("7"), "bucket 0: wanted an object, got 7");
  refuses(buckets("{}"), "bucket 0: wanted \"params\", got none");
  refuses(buckets(R"({"params": "scale"})"), "wanted an array of bucket 0's params, got \"scale\"");
  refuses(buckets(R"({"params": []})"), "bucket 0: wanted at least one parameter, got none");
  refuses(buckets(f32s + R"(, {"params": [3]})"), "bucket 1: wanted the name of a parameter");
  refuses(buckets(R"({"params": ["fc.bias"]})"), "that is trained, got \"fc.bias\"");
  refuses(buckets(""), "lacks conv.weight");
  refuses(buckets(f32s), "lacks scale");
  refuses(buckets(f32s + "," + f64s + "," + f64s), "holds scale twice");
  refuses(buckets(R"({"params": ["scale", "scale"]})"), "holds scale twice");
  refuses(buckets(R"({"params": ["fc.weight", "scale", "conv.weight"]})"),
          "wanted gradients of f32, got scale of f64");
  refuses(buckets(R"({"params": ["scale"], "bytes": 12})"),
          "bucket 0: wanted bytes 16 as its parameters have, got 12; correct it or leave it out");
  refuses(buckets(R"({"params": ["scale"], "bytes": 18446744073709551632})"), "wanted bytes 16");
  refuses(buckets(R"({"params": ["scale"], "bytes": -9223372036854775808})"), "wanted bytes 16");
  refuses(buckets(R"({"params": ["scale"], "bytes": "16"})"), "got \"16\"");
  refuses(buckets(R"({"params": ["scale"], "dtype": "f32"})"), "wanted dtype \"f64\"");
  refuses(buckets("{\"params\": [\"" + std::string(100000, 'x') + "\"]}"), "xxx...");
}

TEST_CASE("nesting without an end neither fills the stack nor the memory") {
  const std::string deep = std::string(5'000'000, '[');
  for (const std::string& text :
       {deep, "{\"format\": " + deep, "{\"format\": 1, \"buckets\": [{\"params\": " + deep}) {
    CHECK_THROWS_WITH_AS(parse(text), doctest::Contains("got deeper nesting"), IoError);
  }
}

}  // namespace
}  // namespace lockstep
