#include "lockstep/data/cifar.h"

#include "lockstep/base/error.h"
#include "lockstep/tests/support/temp_dir.h"

#include <doctest/doctest.h>
#include <filesystem>
#include <vector>

using namespace lockstep;
using testing::TempDir;
using testing::write_file;

namespace {

// Record `i`: labels as given; pixel (y, x) of plane c is (i + 3 y + x + 80 c) mod 251.
std::string record(const std::vector<int>& labels, int i) {
  std::string bytes;
  for (int label : labels) bytes.push_back(static_cast<char>(label));
  for (int c = 0; c < 3; ++c) {
    for (int y = 0; y < 32; ++y) {
      for (int x = 0; x < 32; ++x)
        bytes.push_back(static_cast<char>((i + 3 * y + x + 80 * c) % 251));
    }
  }
  return bytes;
}

void write_cifar10(const std::string& folder) {
  std::filesystem::create_directories(folder);
  for (int b = 1; b <= 5; ++b) {
    write_file(folder + "/data_batch_" + std::to_string(b) + ".bin",
               record({b}, 2 * b) + record({9 - b}, 2 * b + 1));
  }
  write_file(folder + "/test_batch.bin", record({7}, 100));
}

std::string error_of(CifarKind kind, const std::string& directory, Split split = Split::kTrain) {
  try {
    cifar(kind, directory, split);
    return "";
  } catch (const IoError& error) {
    return error.what();
  }
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

}  // namespace

TEST_CASE("CIFAR-10: planes become HWC, normalised; batches in order; names when they are there") {
  const TempDir dir;
  const std::string folder = dir / "cifar-10-batches-bin";
  write_cifar10(folder);
  const auto train = cifar(CifarKind::k10, dir.path().string(), Split::kTrain);
  const auto test = cifar(CifarKind::k10, folder, Split::kTest);
  CHECK(train->size() == 10);
  CHECK(test->size() == 1);
  CHECK(train->classes() == 10);
  CHECK(train->class_names().empty());
  std::vector<float> image(3072);
  CHECK(train->get(5, image) == 6);  // the second of batch 3
  const float mean[] = {0.4914f, 0.4822f, 0.4465f}, deviation[] = {0.2470f, 0.2435f, 0.2616f};
  for (int c = 0; c < 3; ++c) {
    const float pixel = static_cast<float>((7 + 3 * 11 + 20 + 80 * c) % 251) / 255;
    CHECK(image[static_cast<size_t>((11 * 32 + 20) * 3 + c)] ==
          doctest::Approx((pixel - mean[c]) / deviation[c]));
    CHECK(train->format().black_of(c) == doctest::Approx(-mean[c] / deviation[c]));
  }

  std::string names;
  for (int i = 0; i < 10; ++i) names += "name " + std::to_string(i) + "\r\n";
  write_file(folder + "/batches.meta.txt", names + "\n");  // the real file ends with a blank line
  CHECK(cifar(CifarKind::k10, folder, Split::kTest)->class_names().at(9) == "name 9");
  write_file(folder + "/batches.meta.txt", "one\n");
  CHECK(has(error_of(CifarKind::k10, folder), "batches.meta.txt: wanted the names of 10"));
}

TEST_CASE("CIFAR-100: the fine label counts") {
  const TempDir dir;
  write_file(dir / "train.bin", record({19, 99}, 1) + record({0, 42}, 2));
  write_file(dir / "test.bin", record({1, 100}, 1));
  const auto train = cifar(CifarKind::k100, dir.path().string(), Split::kTrain);
  CHECK(train->classes() == 100);
  std::vector<float> image(3072);
  CHECK(train->get(0, image) == 99);
  CHECK(train->get(1, image) == 42);
  CHECK(has(error_of(CifarKind::k100, dir.path().string(), Split::kTest),
            "test.bin: wanted labels below 100, got 100 in record 0"));
}

TEST_CASE("CIFAR: files that are cut short, empty, huge, foreign or missing are refused by name") {
  const TempDir dir;
  const std::string folder = dir.path().string();
  write_cifar10(folder);
  const std::string batch = dir / "data_batch_4.bin";
  for (const std::string& bytes : {record({1}, 1).substr(0, 3072), std::string(),
                                   record({1}, 1) + "x", std::string("\x1f\x8b\x08")}) {
    write_file(batch, bytes);
    CHECK(has(error_of(CifarKind::k10, folder), batch + ": wanted records of 3073 bytes"));
  }
  std::filesystem::resize_file(batch, uint64_t{3073} << 30);  // sparse: refused before it is read
  CHECK(has(error_of(CifarKind::k10, folder), "at most 1073741824 bytes"));
  write_file(batch, record({10}, 1));
  CHECK(has(error_of(CifarKind::k10, folder), "labels below 10, got 10"));
  std::filesystem::remove(batch);
  CHECK(has(error_of(CifarKind::k10, folder), "data_batch_4.bin"));
}
