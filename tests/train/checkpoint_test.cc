#include "lockstep/train/checkpoint.h"

#include "lockstep/base/error.h"
#include "lockstep/tests/support/temp_dir.h"

#include <doctest/doctest.h>

#include <filesystem>

namespace lockstep {
namespace {

Checkpoint example() {
  Checkpoint c;
  c.position = {.step = 120, .epoch = 3, .batch = 7};
  c.best_accuracy = 0.1 + 0.2;  // not a short decimal
  c.traits = {{"--model", "resnet8"}, {"--batch-size", "32"}};
  c.class_names = {"cat", "gr\xc3\xbcn"};
  c.bucket_plan = "{\"buckets\": []}\n";
  c.model = {{"conv1.weight", Tensor::from<float>({1.5f, -2.f}, Shape{2})},
             {"bn1.num_batches_tracked", Tensor::from<int64_t>({9}, Shape{1})}};
  c.optimizer.tensors = {{"momentum.conv1.weight", Tensor::from<float>({0.25f, 3.f}, Shape{2})}};
  c.optimizer.scalars = {{"group0.lr", 1.0 / 3.0}};
  c.comm_hook = {{"rank1/comm_hook/residual.conv1.weight", Tensor::from<float>({7, -8}, Shape{2})}};
  c.rng = Tensor::from<int64_t>({1, 2, -3, 4}, Shape{2, 2});
  c.meter = Tensor::from<double>({1, 2, 3, 4, 5, 6}, Shape{2, 3});
  return c;
}

std::span<const std::byte> as_bytes(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string refusal(const std::string& bytes) {
  try {
    parse_checkpoint(as_bytes(bytes), "file");
  } catch (const IoError& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("what is written is read back, bit for bit") {
  const testing::TempDir dir;
  write_checkpoint(dir / "last.safetensors", example());
  const std::string bytes = testing::read_text(dir / "last.safetensors");
  const Checkpoint back = parse_checkpoint(as_bytes(bytes), "last");
  const Checkpoint wanted = example();
  CHECK(read_checkpoint(dir / "last.safetensors").position == wanted.position);
  CHECK(back.position == wanted.position);
  CHECK(back.best_accuracy == wanted.best_accuracy);
  CHECK(back.traits == wanted.traits);
  CHECK(back.class_names == wanted.class_names);
  CHECK(back.bucket_plan == wanted.bucket_plan);
  CHECK(back.optimizer.scalars == wanted.optimizer.scalars);
  REQUIRE(back.model.size() == 2);
  REQUIRE(back.optimizer.tensors.size() == 1);
  CHECK(back.optimizer.tensors[0].name == "momentum.conv1.weight");
  CHECK(back.optimizer.tensors[0].tensor.to_vector<float>() == std::vector<float>{0.25f, 3.f});
  REQUIRE(back.comm_hook.size() == 1);
  CHECK(back.comm_hook[0].name == wanted.comm_hook[0].name);
  CHECK(back.comm_hook[0].tensor.to_vector<float>() == std::vector<float>{7, -8});
  CHECK(back.rng.to_vector<int64_t>() == wanted.rng.to_vector<int64_t>());
  CHECK(back.meter.to_vector<double>() == wanted.meter.to_vector<double>());
  write_checkpoint(dir / "again.safetensors", back);
  CHECK(testing::read_text(dir / "again.safetensors").size() == bytes.size());
}

TEST_CASE("a checkpoint may have no class names, or ones that are not UTF-8") {
  const testing::TempDir dir;
  Checkpoint checkpoint = example();
  checkpoint.class_names = {};
  write_checkpoint(dir / "none", checkpoint);
  CHECK(testing::read_text(dir / "none").find("class_names") == std::string::npos);
  CHECK(read_checkpoint_header(dir / "none").class_names.empty());
  checkpoint.class_names = {"\xff"};
  write_checkpoint(dir / "odd", checkpoint);
  CHECK(read_checkpoint_header(dir / "odd").class_names ==
        std::vector<std::string>{"\xef\xbf\xbd"});
}

TEST_CASE("a file cut short at any length is refused, as is one that is too long") {
  const testing::TempDir dir;
  write_checkpoint(dir / "c", example());
  const std::string bytes = testing::read_text(dir / "c");
  for (size_t length = 0; length < bytes.size(); ++length) {
    REQUIRE(refusal(bytes.substr(0, length)) != "");
  }
  CHECK(refusal(bytes + "x") != "");
  CHECK(refusal(bytes) == "");
}

TEST_CASE("the header alone says all but the tensors") {
  const testing::TempDir dir;
  write_checkpoint(dir / "c", example());
  const Checkpoint header = read_checkpoint_header(dir / "c");
  CHECK(header.position == example().position);
  CHECK(header.traits == example().traits);
  CHECK(header.bucket_plan == example().bucket_plan);
  CHECK(header.model.empty());
  std::filesystem::resize_file(dir / "c", std::filesystem::file_size(dir / "c") - 1);
  CHECK_THROWS_AS(read_checkpoint_header(dir / "c"), IoError);
}

TEST_CASE("a tensor file that is no checkpoint is refused") {
  const testing::TempDir dir;
  const std::vector<NamedTensor> tensors = {{"a", Tensor::zeros(Shape{2}, DType::kF32)}};
  const std::string rest =
      R"("step": 1, "epoch": 0, "batch": 1, "best_accuracy": 0, "traits": [], "optimizer": []})";
  const std::string nested = std::string(400'000, '[') + std::string(400'000, ']');
  for (const auto& [metadata, expected] : std::vector<std::pair<Metadata, std::string>>{
           {{}, "wanted a checkpoint"},
           {{{"lockstep", "{\"format\": " + nested + "}"}}, "got an array"},
           {{{"lockstep", "{\"format\": 2, \"step\": " + nested + "}"}}, "got an array"},
           {{{"lockstep", "{"}}, "malformed"},
           {{{"lockstep", "[]"}}, "malformed"},
           {{{"lockstep", R"({"format": 99})"}}, "got 99; a newer version"},
           {{{"lockstep", R"({"format": 2, "step": "x"})"}}, "malformed"},
           {{{"lockstep", R"({"format": 2, "step": 1e30})"}}, "wanted an integer step"},
           {{{"lockstep", R"({"format": 2, "step": 1, "epoch": 0, "batch": 1, "best_accuracy": 0,
              "traits": [["a"]], "optimizer": []})"}},
            "malformed"},
           {{{"lockstep", "{\"format\": 2, " + rest}}, "wanted a bucket_plan"},
           {{{"lockstep", "{\"format\": 1, " + rest}, {"bucket_plan", ""}},
            "format 2, got 1; an older version"},
           {{{"lockstep", "{\"format\": 2, " + rest}, {"bucket_plan", ""}}, "rank/rng"}}) {
    write_safetensors(dir / "t", tensors, metadata);
    const std::string message = refusal(testing::read_text(dir / "t"));
    CHECK_MESSAGE(message.find(expected) != std::string::npos, message);
  }
}

TEST_CASE("a run of another kind is refused by the first trait that differs") {
  const std::vector<RunTrait> saved = {{"--model", "resnet8"}, {"--batch-size", "32"}};
  CHECK_NOTHROW(check_traits("f", saved, {{"--batch-size", "32"}, {"--model", "resnet8"}}));
  try {
    check_traits("f", saved, {{"--model", "resnet8"}, {"--batch-size", "64"}});
    FAIL("accepted");
  } catch (const ArgumentError& error) {
    const std::string message = error.what();
    CHECK(message.find("wanted --batch-size 32") != std::string::npos);
    CHECK(message.find("got 64") != std::string::npos);
    CHECK(message.find('\n') == std::string::npos);
  }
  CHECK_THROWS_AS(check_traits("f", saved, {{"--model", "resnet8"}}), ArgumentError);
  CHECK_THROWS_AS(check_traits("f", {{"--model", "resnet8"}}, saved), ArgumentError);
}

}  // namespace
}  // namespace lockstep
