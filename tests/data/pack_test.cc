#include "lockstep/data/pack.h"

#include "lockstep/base/log.h"
#include "lockstep/data/image_folder.h"
#include "lockstep/data/open_dataset.h"
#include "lockstep/tests/data/image_files.h"

#include <doctest/doctest.h>
#include <cmath>
#include <cstring>
#include <set>

using namespace lockstep;
using namespace lockstep::testing;
namespace fs = std::filesystem;

namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

std::string error_of(const std::string& directory, Split split = Split::kTrain) {
  try {
    packed_images(directory, split);
    return "";
  } catch (const IoError& error) {
    return error.what();
  }
}

std::vector<uint8_t> copy(const ImageSource& source, int64_t i) {
  std::vector<uint8_t> scratch;
  const auto bytes = source.bytes(i, scratch);
  return {bytes.begin(), bytes.end()};
}

void put(std::string& bytes, size_t at, uint64_t value, size_t count) {
  for (size_t i = 0; i < count; ++i) bytes[at + i] = static_cast<char>(value >> (8 * i));
}

uint64_t read_at(const std::string& bytes, size_t at) {
  uint64_t value = 0;
  std::memcpy(&value, bytes.data() + at, 8);
  return value;
}

}  // namespace

TEST_CASE("packed images are those of the folder, in one shard or many") {
  const TempDir dir;
  write_good_folder(dir / "folder", 12);
  const auto source = image_folder({.directory = dir / "folder", .split = Split::kTrain});
  for (const int64_t shard_bytes : {int64_t{1}, int64_t{5000}, int64_t{1} << 30}) {
    const std::string out = dir / "packed" + std::to_string(shard_bytes);
    fs::create_directories(out);
    const PackResult done = pack_images(*source, out, Split::kTrain, {.shard_bytes = shard_bytes});
    CHECK(done.images == 24);
    CHECK(done.skipped == 0);
    const uint32_t wanted = shard_bytes == 1 ? 24 : 1;
    CHECK((shard_bytes == 5000 ? done.shards > 4 && done.shards < 24 : done.shards == wanted));
    const auto packed = packed_images(out, Split::kTrain);
    CHECK(packed->class_names() == source->class_names());
    REQUIRE(packed->size() == 24);
    for (int64_t i = 0; i < 24; ++i) {
      CHECK(copy(*packed, i) == copy(*source, i));
      CHECK(packed->label(i) == source->label(i));
    }
    CHECK(has(packed->name(23), pack_file(Split::kTrain, done.shards - 1) + ", image "));
  }
}

TEST_CASE("packed with a size: decoded pixels, reduced, never enlarged") {
  const TempDir dir;
  write_good_folder(dir / "folder", 3);
  const auto source = image_folder({.directory = dir / "folder", .split = Split::kTrain});
  for (const auto& [resize, height, width] : {std::tuple{20, 20, 28}, std::tuple{99, 37, 53}}) {
    const std::string out = dir / "packed" + std::to_string(resize);
    fs::create_directories(out);
    pack_images(*source, out, Split::kTrain, {.resize = resize});
    Image image;
    decode_image(copy(*packed_images(out, Split::kTrain), 0), "", {}, image);
    CHECK(image.height == height);
    CHECK(image.width == width);
  }
  // Not reduced, so the data set is the folder's to the bit.
  pack_images(*image_folder({.directory = dir / "folder", .split = Split::kTest}), dir / "packed99",
              Split::kTest, {.resize = 99});
  OpenOptions options;
  options.images.view.size = 16;
  for (const Split split : {Split::kTrain, Split::kTest}) {
    const auto a = open_dataset("folder", dir / "folder", split, options),
               b = open_dataset("packed", dir / "packed99", split, options);
    REQUIRE(a->size() == b->size());
    std::vector<float> from(size_t{16} * 16 * 3), packed(from);
    for (int64_t i = 0; i < a->size(); ++i) {
      CHECK(a->get(i, from) == b->get(i, packed));
      CHECK(from == packed);
    }
  }
}

TEST_CASE("bad images are found when packing: named, fatal or left out") {
  const TempDir dir;
  write_good_folder(dir / "folder", 3);
  write_image(dir / "folder/train/cat/101.png", "text");
  write_image(dir / "folder/train/dog/100.png", png_of_size(60000, 60000));
  const auto source = image_folder({.directory = dir / "folder", .split = Split::kTrain});
  fs::create_directories(dir / "out");
  CHECK_THROWS_WITH_AS(pack_images(*source, dir / "out", Split::kTrain, {}),
                       doctest::Contains("cat/101.png"), BadImage);
  CHECK(fs::is_empty(dir / "out"));
  std::vector<std::string> lines;
  const LogSink before =
      set_log_sink([&](LogLevel, std::string_view line) { lines.emplace_back(line); });
  const PackResult done =
      pack_images(*source, dir / "out", Split::kTrain, {.bad_images = BadImages::kSkip});
  set_log_sink(before);
  CHECK(done.images == 4);
  CHECK(done.skipped == 2);
  REQUIRE(lines.size() == 2);
  CHECK(has(lines[1], "dog/100.png: the header announces 60000 x 60000"));
}

TEST_CASE("shards that are missing, cut short, foreign or malformed are refused by name") {
  const TempDir dir;
  write_good_folder(dir / "folder", 3);
  fs::create_directories(dir / "p");
  const auto source = image_folder({.directory = dir / "folder", .split = Split::kTrain});
  pack_images(*source, dir / "p", Split::kTrain, {.shard_bytes = 4000});
  const std::string packed = dir / "p", first = packed + "/train-00000.pack",
                    second = packed + "/train-00001.pack";
  REQUIRE(error_of(packed).empty());
  REQUIRE(fs::exists(second));
  CHECK(has(error_of(packed, Split::kTest), "val-00000.pack is missing; 'lockstep pack' makes it"));

  const std::string good = read_text(first), other = read_text(second);
  const auto with = [&](const std::string& bytes) {
    write_file(first, bytes);
    std::string error = error_of(packed);
    CHECK(has(error, first));
    return error;
  };
  for (size_t size = 0; size < good.size(); size += 1 + size / 9)
    CHECK(!with(good.substr(0, size)).empty());
  CHECK(has(with(good.substr(0, good.size() - 1)), "the file is cut short"));
  CHECK(has(with(good + "x"), "was added to"));
  CHECK(has(with(golden_image("rgb.png")), "wanted a shard made by 'lockstep pack'"));
  CHECK(has(with(""), "0 bytes that is none"));
  CHECK(has(with(other), "is shard 1 under another name"));
  const auto changed = [&](size_t at, uint64_t value, size_t count) {
    std::string bytes = good;
    put(bytes, at, value, count);
    return with(bytes);
  };
  const uint64_t index = read_at(good, 32), names = read_at(good, 40);
  CHECK(has(changed(8, 2, 4), "wanted version 1, got 2"));
  CHECK(has(changed(20, 3, 4), "wanted 3 class names, got 2"));
  CHECK(has(changed(20, 1, 4), "behind the last class name"));
  CHECK(has(changed(20, 0xffffffff, 4), "wanted 4294967295 class names"));
  for (const uint64_t images : {uint64_t{0}, uint64_t{1} << 60, UINT64_MAX})
    CHECK(has(changed(24, images, 8), "wanted an index of"));
  for (const uint64_t at : {uint64_t{0}, index + 1, UINT64_MAX, names + 16})
    CHECK(has(changed(32, at, 8), "wanted an index of"));
  CHECK(has(changed(40, UINT64_MAX, 8), "wanted an index of"));
  CHECK(has(changed(index, 0, 8), "image 0 has"));
  CHECK(has(changed(index, UINT64_MAX, 8), "image 0 has"));
  CHECK(has(changed(index + 8, 0xffffffff, 4), "image 0 has 4294967295 bytes"));
  CHECK(has(changed(index + 12, 2, 4), "a label below 2"));
  CHECK(has(changed(names, 0xffffffff, 4), "class names, got 0"));

  write_file(first, good);
  std::string renamed = other;
  renamed.back() = 'x';  // dog -> dox
  write_file(second, renamed);
  CHECK(has(error_of(packed), "belongs to another data set"));
  fs::remove(second);
  CHECK(has(error_of(packed), "train-00001.pack is missing; the shard before it is not the last"));
}
