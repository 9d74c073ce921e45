#include "lockstep/io/event_file.h"

#include "lockstep/base/error.h"
#include "lockstep/tests/support/temp_dir.h"

#include <doctest/doctest.h>

#include <limits>
#include <vector>

namespace lockstep {
namespace {

std::string record(double wall_time, int64_t step, const std::vector<EventScalar>& scalars) {
  return event_scalars(wall_time, step, scalars);
}

TEST_CASE("CRC-32C of the examples in RFC 3720, B.4, and of the usual nine digits") {
  CHECK(crc32c("") == 0);
  CHECK(crc32c("123456789") == 0xe3069283);
  CHECK(crc32c(std::string(32, '\0')) == 0x8a9136aa);
  CHECK(crc32c(std::string(32, '\xff')) == 0x62a8ab43);
  std::string rising;
  for (char c = 0; c < 32; ++c) rising += c;
  CHECK(crc32c(rising) == 0x46dd794e);
}

TEST_CASE("the bytes are those of TensorBoard's own writer") {
  const testing::TempDir dir;
  // As tests/golden/make_events.py has them.
  {
    EventFile file(dir / "events");
    file.append(event_version(1700000000.0));
    file.append(event_start(1700000000.25, 0) + event_start(1700000000.25, 300));
    file.append(record(1700000001.5, 0, {{"train/loss", 2.5f}}));
    file.append(record(1700000002.0, 127, {{"train/loss", 0.1f}, {"train/accuracy", 0.0f}}));
    file.append(record(1700000003.0, 128,
                       {{"test/accuracy", std::numeric_limits<float>::infinity()},
                        {std::string(200, 'a'), -1e-30f}}));
    file.append(record(1700000004.0, (int64_t{1} << 40) + 5,
                       {{"gr\xc3\xbcn", std::numeric_limits<float>::max()}}));
    file.append(record(-1.0, std::numeric_limits<int64_t>::max(), {}));
  }
  const std::string golden = testing::read_text("tests/golden/scalars.tfevents");
  REQUIRE(golden.size() == 567);
  CHECK(testing::read_text(dir / "events") == golden);
}

TEST_CASE("each record is in the file once it is appended") {
  const testing::TempDir dir;
  EventFile file(dir / "events");
  file.append(event_version(1));
  CHECK(testing::read_text(dir / "events") == event_version(1));
  { EventFile again(dir / "events"); }
  CHECK(testing::read_text(dir / "events").empty());
  CHECK_THROWS_AS(EventFile(dir / "no/events"), IoError);
  EventFile full("/dev/full");
  CHECK_THROWS_WITH_AS(full.append("x"),
                       doctest::Contains("/dev/full: cannot be written: No space"), IoError);
}

}  // namespace
}  // namespace lockstep
