#include "lockstep/io/gzip.h"

#include "lockstep/base/error.h"
#include "lockstep/io/file.h"
#include "lockstep/tests/support/gzip.h"
#include "lockstep/tests/support/temp_dir.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <string>
#include <vector>

using namespace lockstep;

namespace {

std::span<const uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

}  // namespace

TEST_CASE("what was compressed comes back in pieces of any size") {
  std::string text;
  for (int i = 0; i < 20000; ++i) text += std::to_string(i * i % 977);
  const std::string packed = testing::gzip(text);
  CHECK(is_gzip(bytes_of(packed)));
  CHECK(!is_gzip(bytes_of(text)));
  CHECK(!is_gzip({}));
  for (size_t piece : {size_t{1}, size_t{7}, size_t{4096}, text.size(), text.size() + 100}) {
    GzipReader reader(bytes_of(packed), "some.gz");
    std::string got, buffer(piece, '\0');
    while (const size_t count = reader.read(reinterpret_cast<uint8_t*>(buffer.data()), piece)) {
      got += buffer.substr(0, count);
    }
    CHECK(got == text);
    reader.expect_end();
  }
}

TEST_CASE("a damaged check sum, a missing end and other formats are refused") {
  std::string packed = testing::gzip("hello");
  const auto read_all = [](const std::string& file) {
    GzipReader reader(bytes_of(file), "some.gz");
    std::vector<uint8_t> to(100);
    reader.read(to.data(), to.size());
    reader.expect_end();
  };
  read_all(packed);
  CHECK_THROWS_WITH_AS(read_all(packed.substr(0, packed.size() - 1)),
                       doctest::Contains("some.gz: the file is cut"), IoError);
  packed[packed.size() - 5] ^= 1;
  CHECK_THROWS_WITH_AS(read_all(packed), doctest::Contains("damaged"), IoError);
  CHECK_THROWS_AS(read_all("PK\3\4"), IoError);
  CHECK_THROWS_AS(read_all(""), IoError);
}

TEST_CASE("files are read whole, within bounds, and only when they are files") {
  testing::TempDir dir;
  testing::write_file(dir / "a", "hello");
  CHECK(read_file(dir / "a", 5).size() == 5);
  CHECK_THROWS_WITH_AS(read_file(dir / "a", 4), doctest::Contains("wanted at most 4 bytes, got 5"),
                       IoError);
  const InputFile file(dir / "a");
  char c[4] = {};
  file.read(1, c, 4);
  CHECK(std::string(c, 4) == "ello");
  CHECK_THROWS_WITH_AS(file.read(2, c, 4), doctest::Contains("the file ends there"), IoError);
  // A pipe without a writer would block an unwary open() for ever.
  REQUIRE(mkfifo((dir / "pipe").c_str(), 0600) == 0);
  CHECK_THROWS_WITH_AS(InputFile(dir / "pipe"), doctest::Contains("regular file"), IoError);
  CHECK_THROWS_AS(InputFile("/dev/zero"), IoError);
}
