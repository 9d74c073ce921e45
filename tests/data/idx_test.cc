#include "lockstep/data/idx.h"

#include "lockstep/base/error.h"
#include "lockstep/data/datasets.h"
#include "lockstep/tests/support/gzip.h"
#include "lockstep/tests/support/temp_dir.h"

#include <doctest/doctest.h>
#include <numeric>
#include <string>
#include <vector>

using namespace lockstep;
using lockstep::testing::gzip;
using lockstep::testing::TempDir;

namespace {

std::string header(const std::vector<uint32_t>& dims, char type = 8) {
  std::string bytes = {0, 0, type, static_cast<char>(dims.size())};
  for (uint32_t extent : dims) {
    for (int shift : {24, 16, 8, 0}) bytes += static_cast<char>(extent >> shift);
  }
  return bytes;
}

std::string counting(size_t count) {
  std::string bytes(count, '\0');
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<char>(i);
  return bytes;
}

IdxArray parse(const std::string& bytes) {
  return parse_idx(std::span(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()),
                   "some.idx");
}

void check_refused(const std::string& bytes, const std::string& because) {
  std::string message = "was accepted";
  try {
    parse(bytes);
  } catch (const IoError& error) {
    message = error.what();
    CHECK(message.find("some.idx") != std::string::npos);
  }
  CAPTURE(message);
  CHECK(message.find(because) != std::string::npos);
}

}  // namespace

TEST_CASE("arrays of one to four dimensions, plain and gzipped") {
  for (const auto& dims :
       std::vector<std::vector<uint32_t>>{{6}, {2, 3}, {3, 4, 5}, {2, 3, 4, 3}, {0}, {0, 28, 28}}) {
    size_t count = 1;
    for (uint32_t extent : dims) count *= extent;
    const std::string bytes = header(dims) + counting(count);
    for (const std::string& file : {bytes, gzip(bytes)}) {
      const IdxArray array = parse(file);
      CHECK(array.dims == std::vector<int64_t>(dims.begin(), dims.end()));
      CHECK(std::string(array.values.begin(), array.values.end()) == counting(count));
    }
  }
}

TEST_CASE("a file cut anywhere is refused, and so are bytes too many") {
  const std::string plain = header({5, 7}) + counting(35);
  const std::string packed = gzip(plain);
  for (const std::string& whole : {plain, packed}) {
    for (size_t length = 0; length < whole.size(); ++length) {
      CHECK_THROWS_AS(parse(whole.substr(0, length)), IoError);
    }
  }
  check_refused(plain.substr(0, 30), "wanted 18");
  check_refused(plain + "x", "wanted 36");
  check_refused(packed.substr(0, packed.size() - 9), "cut short");
  check_refused(packed + "x", "bytes follow");
  check_refused(packed + packed, "bytes follow");
  check_refused(gzip(plain + "x"), "more bytes than its header");
  check_refused(gzip(plain.substr(0, 30)), "cut short");
}

TEST_CASE("damage to gzipped data is found") {
  const std::string packed = gzip(header({500}) + counting(500));
  int found = 0;
  for (size_t i = 10; i < packed.size(); ++i) {
    std::string damaged = packed;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x40);
    try {
      // The bits that fill up deflate's last byte mean nothing.
      const IdxArray array = parse(damaged);
      CHECK(std::string(array.values.begin(), array.values.end()) == counting(500));
    } catch (const IoError&) {
      ++found;
    }
  }
  CHECK(found >= static_cast<int>(packed.size()) - 11);
}

TEST_CASE("other types and dimensions are refused") {
  check_refused(header({4}, 13) + counting(16), "unsigned bytes");
  check_refused(header({}) + "x", "1 to 4 dimensions");
  check_refused(header({1, 1, 1, 1, 1}) + "x", "1 to 4 dimensions");
  check_refused("PK\3\4 not an IDX file", "unsigned bytes");
  check_refused(gzip("hello, world"), "unsigned bytes");
}

TEST_CASE("what cannot be there is refused before it is allocated") {
  // 2^128 elements: the product overflows.
  check_refused(header({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}), "2^64");
  check_refused(header({0xffffffff, 0xffffffff}) + "x", "wanted 1 in");
  check_refused(gzip(header({0xffffffff}) + "x"), "at most");
  SUBCASE("a bomb: 64 MiB of zeros in 64 KiB, more than is allowed") {
    const std::string bomb = gzip(header({1 << 26}) + std::string(1 << 26, '\0'));
    CHECK(bomb.size() < 1 << 17);
    const std::span bytes(reinterpret_cast<const uint8_t*>(bomb.data()), bomb.size());
    CHECK(parse_idx(bytes, "bomb").values.size() == 1 << 26);
    CHECK_THROWS_WITH_AS(parse_idx(bytes, "bomb", 1 << 20), doctest::Contains("at most 1048576"),
                         IoError);
  }
  SUBCASE("a bomb that announces little is not read beyond that") {
    check_refused(gzip(header({10}) + std::string(1 << 26, '\0')), "more bytes than its header");
  }
}

TEST_CASE("a directory of the MNIST family") {
  TempDir dir;
  const auto put = [&](const std::string& name, const std::string& bytes) {
    testing::write_file(dir / name, bytes);
  };
  put("train-images-idx3-ubyte", header({3, 2, 2}) + counting(12));
  put("train-labels-idx1-ubyte.gz", gzip(header({3}) + std::string{7, 0, 9}));
  const auto data = mnist(dir.path(), Split::kTrain);
  CHECK(data->size() == 3);
  std::vector<float> image(4);
  CHECK(data->get(2, image) == 9);
  CHECK(image[3] == doctest::Approx((11 / 255.0 - 0.1307) / 0.3081));

  const auto refused = [&](const char* because) {
    CHECK_THROWS_WITH_AS(mnist(dir.path(), Split::kTrain), doctest::Contains(because), IoError);
  };
  SUBCASE("no test files") {
    CHECK_THROWS_WITH_AS(mnist(dir.path(), Split::kTest), doctest::Contains("t10k-images"),
                         IoError);
  }
  SUBCASE("a label too large") {
    put("train-labels-idx1-ubyte", header({3}) + std::string{7, 10, 9});
    refused("got 10 for image 1");
  }
  SUBCASE("more labels than images") {
    put("train-labels-idx1-ubyte", header({4}) + std::string{7, 0, 9, 1});
    refused("4 labels");
  }
  SUBCASE("no images") {
    put("train-images-idx3-ubyte", header({0, 2, 2}));
    put("train-labels-idx1-ubyte", header({0}));
    refused("at least one");
  }
  SUBCASE("no images of a size whose product overflows") {
    put("train-images-idx3-ubyte", header({0, 0xffffffff, 0xffffffff}));
    refused("at least one image");
  }
  SUBCASE("images of no pixels") {
    put("train-images-idx3-ubyte", header({3, 0, 2}));
    refused("0 pixels");
  }
  SUBCASE("labels where images should be") {
    put("train-images-idx3-ubyte", header({3}) + std::string{7, 0, 9});
    refused("three dimensions");
  }
}
