#include "lockstep/io/safetensors.h"

#include "lockstep/base/error.h"
#include "lockstep/tests/support/temp_dir.h"

#include <doctest/doctest.h>
#include <string>
#include <vector>

using namespace lockstep;
using lockstep::testing::TempDir;

namespace {

// A file: the length, the JSON, `data` bytes.
std::string file_of(const std::string& json, size_t data) {
  const uint64_t length = json.size();
  std::string bytes(reinterpret_cast<const char*>(&length), sizeof length);
  return bytes + json + std::string(data, '\1');
}

TensorFile parse(const std::string& bytes) {
  return parse_safetensors(std::as_bytes(std::span(bytes)), "some.safetensors");
}

// The message of the IoError that reading `bytes` must end in.
std::string refusal(const std::string& bytes) {
  try {
    parse(bytes);
  } catch (const IoError& error) {
    CHECK(std::string(error.what()).find("some.safetensors") != std::string::npos);
    return error.what();
  }
  return "was accepted";
}

void check_refused(const std::string& bytes, const std::string& because) {
  CAPTURE(bytes);
  const std::string message = refusal(bytes);
  CAPTURE(message);
  CHECK(message.find(because) != std::string::npos);
}

std::string tensor(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

}  // namespace

TEST_CASE("tensors of every dtype and shape come back bit for bit") {
  TempDir dir;
  std::vector<NamedTensor> tensors;
  tensors.push_back({"bytes", Tensor::from<uint8_t>({1, 2, 255}, {3})});
  tensors.push_back({"floats", Tensor::from<float>({1.5f, -0.0f, 3e38f, 1e-45f}, {2, 2})});
  tensors.push_back({"scalar", Tensor::from<double>({0.1}, {})});
  tensors.push_back({"none", Tensor::empty({0, 4}, DType::kF32)});
  tensors.push_back({"halves", Tensor::from<bf16>({bf16(1.0f), bf16(-2.5f)}, {2, 1})});
  tensors.push_back({"f16", Tensor::from<f16>({f16(1.0f), f16(-65504.0f), f16(6e-8f)}, {3})});
  tensors.push_back(
      {"longs \"quoted\" \\ \n \u00e9", Tensor::from<int64_t>({INT64_MIN, INT64_MAX}, {2})});
  tensors.push_back({"ints", Tensor::from<int32_t>({-7}, {1, 1, 1, 1, 1, 1, 1, 1})});
  const Metadata metadata = {{"step", "17"}, {"text", "line\nwith \"quotes\" \u2713"}};
  write_safetensors(dir / "a", tensors, metadata);

  const TensorFile read = read_safetensors(dir / "a");
  CHECK(read.metadata == metadata);
  CHECK(read.tensors.size() == tensors.size());
  for (const auto& [name, wanted] : tensors) {
    CAPTURE(name);
    const Tensor& got = read.at(name);
    CHECK(got.dtype() == wanted.dtype());
    CHECK(got.shape() == wanted.shape());
    CHECK(std::memcmp(got.raw(), wanted.raw(), wanted.nbytes()) == 0);
  }
  CHECK(read.find("absent") == nullptr);
  CHECK_THROWS_WITH_AS(read.at("absent"), doctest::Contains("absent"), IoError);

  SUBCASE("every tensor is aligned to its element size in the file") {
    for (const TensorEntry& entry : read_safetensors_header(dir / "a").tensors) {
      CHECK(entry.offset % size_of(entry.dtype) == 0);
    }
  }
  SUBCASE("equal inputs give equal files") {
    write_safetensors(dir / "b", tensors, metadata);
    CHECK(testing::read_text(dir / "a") == testing::read_text(dir / "b"));
  }
  SUBCASE("cut anywhere, or one byte longer, it is refused") {
    const std::string whole = testing::read_text(dir / "a");
    for (size_t length = 0; length < whole.size(); ++length) {
      CHECK_THROWS_AS(parse(whole.substr(0, length)), IoError);
    }
    CHECK_THROWS_WITH_AS(parse(whole + "x"), doctest::Contains("too long"), IoError);
  }
}

TEST_CASE("no tensors and no metadata make a file too") {
  TempDir dir;
  write_safetensors(dir / "empty", {});
  const TensorFile read = read_safetensors(dir / "empty");
  CHECK(read.tensors.empty());
  CHECK(read.metadata.empty());
}

TEST_CASE("a file as another program writes it is read") {
  // Other order of fields, spaces, offsets not in the order of the names, spaces after the JSON.
  const std::string json = R"( {"b": {"data_offsets":[0, 4],"shape":[2],"dtype":"BF16"},
      "__metadata__":{"format":"pt"}, "a":{"dtype":"I32","shape":[],"data_offsets":[4,8]}}   )";
  const TensorFile file = parse(file_of(json.substr(1), 8));
  CHECK(file.tensors[0].name == "b");
  CHECK(file.at("a").item() == 0x01010101);
  CHECK(file.metadata.at("format") == "pt");
}

TEST_CASE("a file by the reference implementation is read (tests/golden/make_formats.py)") {
  const TensorFile file = read_safetensors("tests/golden/formats.safetensors");
  CHECK(file.tensors.size() == 6);
  CHECK(file.at("f32").shape() == Shape({2, 3}));
  CHECK(file.at("f32").to_vector<float>() == std::vector<float>{0, 0.25f, 0.5f, 0.75f, 1, 1.25f});
  CHECK(file.at("f64").shape() == Shape());
  CHECK(file.at("f64").item() == 0.1);
  CHECK(file.at("i64").to_vector<int64_t>() == std::vector<int64_t>{-1, int64_t{1} << 40});
  CHECK(file.at("i32").to_vector<int32_t>() == std::vector<int32_t>{7});
  CHECK(file.at("u8").to_vector<uint8_t>() == std::vector<uint8_t>{1, 2, 255});
  CHECK(file.at("empty").shape() == Shape({0, 4}));
  CHECK(file.metadata == Metadata{{"format", "np"}, {"n\u00e9", "\u2713 \"quoted\""}});
}

TEST_CASE("malformed headers are refused with the reason") {
  const std::string f32 = tensor("F32", "[2]", "[0,8]");
  check_refused("", "wanted at least 8 bytes, got 0");
  check_refused("1234567", "got 7");
  check_refused(file_of("", 0), "begin with '{'");
  check_refused(file_of("[]", 0), "begin with '{'");
  check_refused(file_of(R"({"a":)" + f32, 8), "not valid JSON");
  check_refused(file_of(R"({"a":)" + f32 + "} x", 8), "not valid JSON");
  check_refused(file_of("{\"\xff\":" + f32 + "}", 8), "not valid JSON");
  check_refused(file_of("{" + std::string(100000, '['), 0), "not valid JSON");
  check_refused(file_of(R"({"a":)" + std::string(100000, '['), 0), "an array");
  check_refused(file_of(R"({"a":{"shape":)" + std::string(100000, '['), 0), "an array");
  check_refused(file_of(R"({"a":{"b":{}}})", 0), "unknown field");
  check_refused(file_of(R"({"a":1})", 0), "a number");
  check_refused(file_of(R"({"a":{}})", 0), "lacks");
  check_refused(file_of(R"({"a":{"dtype":"F32","shape":[2]}})", 8), "lacks");
  check_refused(file_of(R"({"__metadata__":{"a":1}})", 0), "a number");
  check_refused(file_of(R"({"__metadata__":{"a":"1","a":"2"}})", 0), "twice");
  check_refused(file_of(R"({"a":)" + f32 + R"(,"a":)" + f32 + "}", 8), "twice");
  check_refused(
      file_of(R"({"a":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8),
      "twice");
}

TEST_CASE("wrong types, shapes and offsets are refused with the reason") {
  const auto one = [](const std::string& t) { return R"({"a":)" + t + "}"; };
  check_refused(file_of(one(tensor("F8_E5M2", "[2]", "[0,2]")), 2), "got \"F8_E5M2\"");
  check_refused(file_of(one(tensor("F32", "[-2]", "[0,8]")), 8), "negative");
  check_refused(file_of(one(tensor("F32", "[2.0]", "[0,8]")), 8), "fraction");
  check_refused(file_of(one(tensor("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]")), 4), "eight dimensions");
  check_refused(file_of(one(tensor("F32", "[18446744073709551615]", "[0,4]")), 4),
                "large an extent");
  check_refused(file_of(one(tensor("F32", "[4294967296,4294967296]", "[0,0]")), 0),
                "many elements");
  // 2^62 elements of 4 bytes are 2^64, which wraps to 0.
  check_refused(file_of(one(tensor("F32", "[4611686018427387904]", "[0,0]")), 0), "does not take");
  check_refused(file_of(one(tensor("F32", "[2]", "[0,4]")), 4), "does not take the 4 bytes");
  check_refused(file_of(one(tensor("F32", "[2]", "[8,0]")), 8), "offsets");
  check_refused(file_of(one(tensor("F32", "[2]", "[0]")), 8), "offsets");
  check_refused(file_of(one(tensor("F32", "[2]", "[0,8,8]")), 8), "more than two offsets");
  check_refused(file_of(one(tensor("F32", "[2]", "[4,12]")), 12), "gap");
  check_refused(file_of(one(tensor("F32", "[2]", "[0,8]")), 12), "too long");
  check_refused(file_of(one(tensor("F32", "[2]", "[0,8]")), 7), "cut short");
  // Nothing is allocated for what the file cannot hold.
  check_refused(file_of(one(tensor("U8", "[1000000000000]", "[0,1000000000000]")), 4), "cut short");
  const std::string first = R"({"a":)" + tensor("F32", "[2]", "[0,8]") + R"(,"b":)";
  check_refused(file_of(first + tensor("F32", "[2]", "[4,12]") + "}", 12), "overlaps");
  check_refused(file_of(first + tensor("F32", "[2]", "[0,8]") + "}", 8), "overlaps");
}

TEST_CASE("a header length beyond the file is refused before it is allocated") {
  std::string bytes = file_of("{}", 0);
  bytes[7] = '\x7f';
  check_refused(bytes, "wanted a header of at most 2 bytes");
}

TEST_CASE("what cannot be written is refused and leaves no file") {
  TempDir dir;
  const Tensor t = Tensor::zeros({1}, DType::kF32);
  const auto write = [&](std::vector<NamedTensor> tensors, const Metadata& metadata = {}) {
    write_safetensors(dir / "x", tensors, metadata);
  };
  CHECK_THROWS_WITH_AS(write({{"a", t}, {"a", t}}), doctest::Contains("distinct"), ArgumentError);
  CHECK_THROWS_AS(write({{"__metadata__", t}}), ArgumentError);
  CHECK_THROWS_AS(write({{"a", Tensor()}}), ArgumentError);
  CHECK_THROWS_WITH_AS(write({{"\xff", t}}), doctest::Contains("UTF-8"), ArgumentError);
  CHECK_THROWS_AS(write({{"a", t}}, {{"k", "\xff"}}), ArgumentError);
  CHECK(std::filesystem::is_empty(dir.path()));
}

TEST_CASE("missing files, directories and pipes are refused, not waited for") {
  TempDir dir;
  CHECK_THROWS_WITH_AS(read_safetensors(dir / "absent"), doctest::Contains("No such file"),
                       IoError);
  CHECK_THROWS_WITH_AS(read_safetensors(dir / "."), doctest::Contains("regular file"), IoError);
}
