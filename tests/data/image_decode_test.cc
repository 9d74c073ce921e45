#include "lockstep/data/image/decode.h"

#include "lockstep/data/image/exif.h"
#include "lockstep/io/file.h"

#include <doctest/doctest.h>
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

using namespace lockstep;

namespace {

std::vector<uint8_t> file(const std::string& name) {
  return read_file("tests/golden/images/" + name, 1 << 20);
}

Image decode(std::span<const uint8_t> bytes, const DecodeOptions& options = {}) {
  Image image;
  decode_image(bytes, "picture", options, image);
  return image;
}

std::string error_of(std::span<const uint8_t> bytes, const DecodeOptions& options = {}) {
  try {
    decode(bytes, options);
    return "";
  } catch (const BadImage& error) {
    return error.what();
  }
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

void put_big_endian(std::vector<uint8_t>& bytes, size_t at, uint32_t value) {
  for (int i = 0; i < 4; ++i)
    bytes[at + static_cast<size_t>(i)] = static_cast<uint8_t>(value >> (24 - 8 * i));
}

/// The offset of the marker FFxx's length field.
size_t marker(const std::vector<uint8_t>& jpeg, uint8_t code) {
  for (size_t i = 2; i + 1 < jpeg.size(); ++i) {
    if (jpeg[i] == 0xff && jpeg[i + 1] == code) return i + 2;
  }
  FAIL("no such marker");
  return 0;
}

}  // namespace

TEST_CASE("every kind of file gives Pillow's pixels") {
  // PNG is lossless: equal. JPEG: the standard allows decoders to differ by 1 in the inverse
  // transform; Pillow's own libjpeg-turbo is a later version. CMYK is a product of two such values.
  const std::map<std::string, int> tolerance = {{".png", 0}, {".jpg", 1}};
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator("tests/golden/images")) {
    const std::string name = entry.path().filename().string();
    const auto found = tolerance.find(entry.path().extension().string());
    if (found == tolerance.end()) continue;
    CAPTURE(name);
    ++files;
    const Image got = decode(file(name)), wanted = decode(file(name + ".rgb"));
    REQUIRE(got.height == wanted.height);
    REQUIRE(got.width == wanted.width);
    const int most = has(name, "cmyk") ? 2 : found->second;
    int worst = 0;
    for (size_t i = 0; i < got.pixels.size(); ++i)
      worst = std::max(worst, std::abs(int{got.pixels[i]} - int{wanted.pixels[i]}));
    CHECK(worst <= most);
  }
  CHECK(files == 23);
}

TEST_CASE("an image that ends early, wherever, is corrupt") {
  for (const char* name : {"baseline.jpg", "progressive.jpg", "cmyk.jpg", "rgb.png", "rgb16.png",
                           "palette_transparent.png"}) {
    const std::vector<uint8_t> whole = file(name);
    for (size_t size = 0; size < whole.size(); size += 1 + size % 7) {
      CAPTURE(name);
      CAPTURE(size);
      CHECK(has(error_of(std::span(whole).first(size)), "decode_image: picture: "));
    }
    CHECK(has(error_of(std::span(whole).first(whole.size() / 2)), "ends before the image does"));
  }
}

TEST_CASE("text, nothing and other formats are named for what they are") {
  const std::string text = "This is not an image.\n";
  const std::vector<uint8_t> bytes(text.begin(), text.end());
  CHECK(error_of(bytes) ==
        "decode_image: picture: wanted a JPEG or PNG image, got a file that begins with "
        "'This is '");
  CHECK(has(error_of({}), "the file is empty"));
  const uint8_t gif[] = {'G', 'I', 'F', '8', '9', 'a', 0, 27, 0};
  CHECK(has(error_of(gif), "begins with 'GIF89a?\?'"));
}

TEST_CASE("a header's size is judged before memory is taken for it") {
  std::vector<uint8_t> png = file("rgb.png");
  put_big_endian(png, 16, 60000);
  put_big_endian(png, 20, 60000);
  CHECK(error_of(png) ==
        "decode_image: picture: the header announces 60000 x 60000 pixels; wanted 1 to 100000000 "
        "(--max-image-pixels raises the limit)");
  // Raising it is not enough for a file that is too small for what it announces.
  CHECK(has(error_of(png, {.max_pixels = int64_t{1} << 40}), "more than 1637 bytes can hold"));
  put_big_endian(png, 16, 0xffffffff);
  put_big_endian(png, 20, 0xffffffff);
  CHECK(has(error_of(png), "4294967295 x 4294967295"));
  put_big_endian(png, 20, 0);
  CHECK(has(error_of(png), "4294967295 x 0"));

  std::vector<uint8_t> jpeg = file("baseline.jpg");
  const size_t frame = marker(jpeg, 0xc0);
  for (size_t i : {3, 5}) {
    jpeg[frame + i] = 60000 >> 8;
    jpeg[frame + i + 1] = 60000 & 0xff;
  }
  CHECK(has(error_of(jpeg), "60000 x 60000 pixels; wanted 1 to 100000000"));
  CHECK(error_of(file("rgb.png"), {.max_pixels = int64_t{37} * 53}).empty());
  CHECK(!error_of(file("rgb.png"), {.max_pixels = int64_t{37} * 53 - 1}).empty());

  std::vector<uint8_t> rgb = file("rgb.png.rgb");
  rgb[7] = 0x80;
  CHECK(has(error_of(rgb), "5883 bytes follow"));
  rgb = encode_rgb({});
  CHECK(has(error_of(rgb), "0 x 0 pixels; wanted 1"));
}

TEST_CASE("damage in the data is found") {
  std::vector<uint8_t> png = file("rgb.png");
  png[png.size() / 2] ^= 0x10;
  CHECK(has(error_of(png), "corrupt PNG: "));
  std::vector<uint8_t> jpeg = file("baseline.jpg");
  const size_t scan = marker(jpeg, 0xda);
  jpeg[scan + 200] = 0xff;  // the end, in the middle of the data
  jpeg[scan + 201] = 0xd9;
  CHECK(has(error_of(jpeg), "corrupt JPEG: Corrupt JPEG data: premature end of data segment"));
  jpeg = file("baseline.jpg");
  jpeg[marker(jpeg, 0xc0) + 2] = 12;  // bits
  CHECK(has(error_of(jpeg), "corrupt JPEG: Unsupported JPEG data precision 12"));
}

TEST_CASE("stray bytes between markers are harmless") {
  std::vector<uint8_t> jpeg = file("baseline.jpg");
  const Image wanted = decode(jpeg);
  const std::vector<uint8_t> stray = {0x00, 0x17};
  jpeg.insert(jpeg.begin() + static_cast<std::ptrdiff_t>(marker(jpeg, 0xc0)) - 2, stray.begin(),
              stray.end());
  CHECK(decode(jpeg).pixels == wanted.pixels);
}

TEST_CASE("an image of too many scans is refused") {
  const std::vector<uint8_t> jpeg = file("progressive.jpg");
  // The last scan again and again.
  size_t last = jpeg.size();
  for (size_t i = 2; i + 1 < jpeg.size(); ++i) {
    if (jpeg[i] == 0xff && jpeg[i + 1] == 0xda) last = i;
  }
  REQUIRE(last < jpeg.size());
  std::vector<uint8_t> many = jpeg;
  for (int i = 0; i < 400; ++i)
    many.insert(many.end() - 2, jpeg.begin() + static_cast<std::ptrdiff_t>(last), jpeg.end() - 2);
  CHECK(has(error_of(many), "corrupt JPEG: "));
}

TEST_CASE("EXIF blocks that make no sense mean upright") {
  const auto orientation = [](std::vector<uint8_t> tiff) { return exif_orientation(tiff); };
  const std::vector<uint8_t> good = {'I', 'I', 42, 0, 8, 0, 0, 0, 1, 0, 0x12, 1, 3,
                                     0,   1,   0,  0, 0, 6, 0, 0, 0, 0, 0,    0, 0};
  CHECK(orientation(good) == 6);
  for (size_t size = 0; size < 20; ++size)
    CHECK(orientation({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)}) == 1);
  const auto with = [&](size_t at, uint8_t value) {
    std::vector<uint8_t> tiff = good;
    tiff[at] = value;
    return exif_orientation(tiff);
  };
  CHECK(with(0, 'M') == 1);
  CHECK(with(2, 43) == 1);
  CHECK(with(4, 200) == 1);
  CHECK(with(12, 4) == 1);
  CHECK(with(18, 9) == 1);
  CHECK(with(18, 0) == 1);
  CHECK(with(9, 255) == 6);  // more entries than there is room for
  CHECK(orientation({'M', 'M', 0, 42, 0, 0, 0, 8, 0, 1, 1, 0x12, 0, 3, 0, 0, 0, 1, 0, 8, 0, 0}) ==
        8);
}
