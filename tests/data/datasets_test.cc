#include "lockstep/data/datasets.h"

#include "lockstep/base/error.h"
#include "lockstep/data/open_dataset.h"

#include <doctest/doctest.h>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <set>
#include <vector>

using namespace lockstep;

namespace {

struct Sample {
  std::vector<float> image;
  int64_t label;
};

Sample sample(const Dataset& data, int64_t index) {
  Sample s{std::vector<float>(static_cast<size_t>(data.format().numel())), 0};
  s.label = data.get(index, s.image);
  return s;
}

// Mean and standard deviation over all pixels of the first `count` samples.
std::pair<double, double> moments(const Dataset& data, int64_t count) {
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < count; ++i) {
    for (float value : sample(data, i).image) {
      sum += value;
      squares += double{value} * value;
    }
  }
  const double n = static_cast<double>(count * data.format().numel());
  return {sum / n, std::sqrt(squares / n - sum / n * sum / n)};
}

}  // namespace

TEST_CASE("digits: the split is fixed, stratified and without overlap") {
  const auto train = digits(Split::kTrain), test = digits(Split::kTest);
  CHECK(train->size() == 1438);
  CHECK(test->size() == 359);
  CHECK(train->classes() == 10);
  CHECK(train->format().numel() == 64);
  std::array<int, 10> counts{};
  std::set<std::vector<float>> images;
  for (int64_t i = 0; i < test->size(); ++i) {
    const Sample s = sample(*test, i);
    ++counts.at(static_cast<size_t>(s.label));
    images.insert(s.image);
  }
  for (int count : counts) CHECK((count >= 35 && count <= 37));
  for (int64_t i = 0; i < train->size(); ++i) CHECK(!images.contains(sample(*train, i).image));
}

TEST_CASE("digits: pixels are those of the file, normalised") {
  const auto train = digits(Split::kTrain);
  // The file's first line: 0,0,5,13,9,1,0,0,0,0,13,15,10,15,5,0, ... and the label 0.
  const Sample first = sample(*train, 0);
  CHECK(first.label == 0);
  CHECK(train->format().black[0] == first.image[0]);
  const float five = (5.0f / 16 - 0.3053f) / 0.3760f, fifteen = (15.0f / 16 - 0.3053f) / 0.3760f;
  CHECK(first.image[2] == doctest::Approx(five));
  CHECK(first.image[11] == doctest::Approx(fifteen));
  const auto [mean, deviation] = moments(*train, train->size());
  CHECK(std::abs(mean) < 0.01);
  CHECK(std::abs(deviation - 1) < 0.01);
}

TEST_CASE("Fashion-MNIST as Debian installs it") {
  if (!std::filesystem::exists("/usr/share/datasets/fashion-mnist")) {
    std::puts("SKIPPED: Fashion-MNIST is not installed (package dataset-fashion-mnist)");
    return;
  }
  const auto train = fashion_mnist(Split::kTrain), test = fashion_mnist(Split::kTest);
  CHECK(train->size() == 60000);
  CHECK(test->size() == 10000);
  CHECK(train->format().height == 28);
  // The first labels of the two files, as published.
  const std::vector<int64_t> labels = {9, 0, 0, 3, 0, 2, 7, 2},
                             test_labels = {9, 2, 1, 1, 6, 1, 4, 6};
  for (size_t i = 0; i < labels.size(); ++i) {
    CHECK(sample(*train, static_cast<int64_t>(i)).label == labels[i]);
    CHECK(sample(*test, static_cast<int64_t>(i)).label == test_labels[i]);
  }
  const auto [mean, deviation] = moments(*train, 5000);
  CHECK(std::abs(mean) < 0.02);
  CHECK(std::abs(deviation - 1) < 0.02);
}

TEST_CASE("synthetic: a pure function of seed, split and index, and learnable") {
  const SyntheticOptions options{
      .size = 500, .height = 12, .width = 20, .channels = 3, .classes = 7, .seed = 4};
  SyntheticOptions other = options;
  other.split = Split::kTest;
  const auto train = synthetic(options), again = synthetic(options), test = synthetic(other);
  CHECK(sample(*train, 17).image == sample(*again, 17).image);
  CHECK(sample(*train, 17).image != sample(*test, 17).image);
  CHECK(sample(*train, 17).label == 3);
  const auto [mean, deviation] = moments(*train, 500);
  CHECK(std::abs(mean) < 0.2);
  CHECK(std::abs(deviation - std::sqrt(2.0)) < 0.2);
  other.seed = 5;
  CHECK(sample(*synthetic(other), 17).image != sample(*test, 17).image);

  // The class means of the training split classify the test split.
  std::vector<std::vector<float>> means(7, std::vector<float>(12 * 20 * 3));
  for (int64_t i = 0; i < 350; ++i) {
    const Sample s = sample(*train, i);
    for (size_t p = 0; p < s.image.size(); ++p)
      means[static_cast<size_t>(s.label)][p] += s.image[p] / 50;
  }
  int right = 0;
  for (int64_t i = 0; i < 100; ++i) {
    const Sample s = sample(*test, i);
    double best = INFINITY;
    int64_t guess = -1;
    for (size_t c = 0; c < 7; ++c) {
      double distance = 0;
      for (size_t p = 0; p < s.image.size(); ++p) distance += std::pow(s.image[p] - means[c][p], 2);
      if (distance < best) std::tie(best, guess) = std::pair(distance, static_cast<int64_t>(c));
    }
    right += guess == s.label;
  }
  CHECK(right >= 98);
}

TEST_CASE("synthetic: any size, and no size below one") {
  CHECK(sample(*synthetic({.size = 3, .height = 1, .width = 1, .channels = 1, .classes = 2}), 2)
            .label == 0);
  CHECK(sample(*synthetic({.size = INT64_MAX, .height = 224, .width = 224}), INT64_MAX - 1).label >=
        0);
  CHECK_THROWS_AS(synthetic({.size = 0}), ArgumentError);
  CHECK_THROWS_AS(synthetic({.height = -1}), ArgumentError);
  CHECK_THROWS_AS(synthetic({.classes = 1 << 21}), ArgumentError);
  CHECK_THROWS_AS(sample(*synthetic({.size = 3}), 3), ArgumentError);
}

TEST_CASE("data sets are opened by name") {
  CHECK(open_dataset("digits", "", Split::kTest)->size() == 359);
  CHECK(open_dataset("synthetic", "", Split::kTest)->size() == 1024);
  CHECK_THROWS_WITH_AS(open_dataset("mnist", "", Split::kTrain), doctest::Contains("directory"),
                       ArgumentError);
  CHECK_THROWS_WITH_AS(open_dataset("mnist", "/nonexistent", Split::kTrain),
                       doctest::Contains("/nonexistent/train-images-idx3-ubyte.gz"), IoError);
  CHECK_THROWS_WITH_AS(open_dataset("cifar", "", Split::kTrain), doctest::Contains("got cifar"),
                       ArgumentError);
  for (const std::string& name : dataset_names()) {
    if (!wanted_directory(name).empty() || name == "fashion-mnist") continue;  // need files
    CHECK(open_dataset(name, "", Split::kTrain)->size() > 0);
  }
}
