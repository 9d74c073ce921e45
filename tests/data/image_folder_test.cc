#include "lockstep/data/image_folder.h"

#include "lockstep/base/log.h"
#include "lockstep/data/loader.h"
#include "lockstep/data/open_dataset.h"
#include "lockstep/tests/data/image_files.h"

#include <doctest/doctest.h>
#include <algorithm>
#include <mutex>
#include <set>
#include <thread>

using namespace lockstep;
using namespace lockstep::testing;
namespace fs = std::filesystem;

namespace {

/// The warnings while it lives.
class Warnings {
 public:
  Warnings() {
    before_ =
        set_log_sink([this](LogLevel, std::string_view message) { lines_.emplace_back(message); });
  }
  ~Warnings() { set_log_sink(before_); }
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  std::vector<std::string> lines_;
  LogSink before_;
};

bool has(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

std::vector<std::string> names_of(const ImageSource& source) {
  std::vector<std::string> names;
  for (int64_t i = 0; i < source.size(); ++i) {
    const fs::path path = source.name(i);
    names.push_back(path.parent_path().filename().string() + "/" + path.filename().string());
  }
  return names;
}

std::string error_of(const ImageFolderOptions& options) {
  try {
    image_folder(options);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

std::shared_ptr<const Dataset> open(const std::string& root, BadImages bad_images,
                                    bool augment = false) {
  OpenOptions options;
  options.images.view = {.size = 8, .augment = augment, .jitter = {0.2f, 0.2f, 0.2f, 0.1f}};
  options.images.bad_images = bad_images;
  return open_dataset("folder", root, Split::kTrain, options);
}

/// A folder with everything that can be wrong: ten images of which three are bad, and a class
/// without any.
void write_bad_folder(const std::string& root) {
  write_good_folder(root, 5);
  const std::string jpeg = golden_image("baseline.jpg");
  write_image(root + "/train/cat/101.png", "text, whatever the name says\n");
  write_image(root + "/train/dog/100.png", png_of_size(60000, 60000));
  write_image(root + "/train/dog/104.jpg", jpeg.substr(0, jpeg.size() / 2));
  fs::create_directories(root + "/train/bird");
}

}  // namespace

TEST_CASE("train/ and val/: classes by name, files by name, what is no image passed over") {
  const TempDir dir;
  const std::string png = golden_image("rgb.png");
  for (const char* path :
       {"/train/dog/b.PNG", "/train/dog/a.jpeg", "/train/cat/z.Jpg", "/train/cat/.hidden.png",
        "/train/cat/notes.txt", "/train/.cache/a.png", "/val/dog/v.png", "/test/dog/t.png"}) {
    write_image(dir.path().string() + path, png);
  }
  fs::create_directories(dir / "train/cat/folder.png");
  const std::string root = dir.path().string();
  const auto train = image_folder({.directory = root, .split = Split::kTrain});
  CHECK(train->class_names() == std::vector<std::string>{"cat", "dog"});
  CHECK(names_of(*train) == std::vector<std::string>{"cat/z.Jpg", "dog/a.jpeg", "dog/b.PNG"});
  CHECK(train->label(0) == 0);
  CHECK(train->label(2) == 1);
  const auto val = image_folder({.directory = root, .split = Split::kTest});
  CHECK(names_of(*val) == std::vector<std::string>{"dog/v.png"});
  CHECK(val->label(0) == 1);
  CHECK(val->class_names().size() == 2);
  fs::remove_all(dir / "val");
  CHECK(names_of(*image_folder({.directory = root, .split = Split::kTest})) ==
        std::vector<std::string>{"dog/t.png"});
  write_image(dir / "test/fox/a.png", png);
  CHECK(has(error_of({.directory = root, .split = Split::kTest}), "test/fox: train/ has no such"));
  fs::remove_all(dir / "test");
  CHECK(has(error_of({.directory = root, .split = Split::kTest}), "neither val/ nor test/"));
  CHECK(has(error_of({.directory = root, .val_fraction = 0.5}), "takes no --val-fraction"));
}

TEST_CASE("one folder: the share of each class, the same whatever else comes and goes") {
  const TempDir dir;
  const std::string root = dir.path().string();
  for (int i = 0; i < 20; ++i) {
    write_image(root + "/a/" + std::to_string(i) + ".png", "x");
    if (i < 10) write_image(root + "/b/" + std::to_string(i) + ".png", "x");
  }
  const auto split = [&](Split s) {
    return names_of(*image_folder({.directory = root, .split = s, .val_fraction = 0.3}));
  };
  const auto train = split(Split::kTrain), val = split(Split::kTest);
  CHECK(train.size() == 21);
  CHECK(std::count_if(val.begin(), val.end(), [](auto& n) { return n[0] == 'a'; }) == 6);
  CHECK(val.size() == 9);
  std::set<std::string> all(train.begin(), train.end());
  all.insert(val.begin(), val.end());
  CHECK(all.size() == 30);
  CHECK(std::is_sorted(val.begin(), val.end()));
  write_image(root + "/c/1.png", "x");
  const auto again = split(Split::kTest);
  CHECK(std::includes(again.begin(), again.end(), val.begin(), val.end()));
  CHECK(has(error_of({.directory = root}), "wanted --val-fraction"));
  CHECK(has(error_of({.directory = root, .val_fraction = 1}), "wanted --val-fraction"));
}

TEST_CASE("folders without classes or images are errors, an empty class is a warning") {
  const TempDir dir;
  const std::string root = dir.path().string();
  CHECK(has(error_of({.directory = dir / "none"}), "no such folder"));
  write_image(dir / "stray.png", golden_image("rgb.png"));
  CHECK(has(error_of({.directory = root, .val_fraction = 0.5}), "a sub-folder for each class"));
  fs::create_directories(dir / "empty");
  {
    const Warnings warnings;
    CHECK(has(error_of({.directory = root, .val_fraction = 0.5}), "no images"));
    REQUIRE(warnings.lines().size() == 1);
    CHECK(has(warnings.lines()[0], "class 'empty' has no images"));
    error_of({.directory = root, .val_fraction = 0.5, .warn = false});
    error_of({.directory = root, .split = Split::kTest, .val_fraction = 0.5});
    CHECK(warnings.lines().size() == 1);
  }
}

TEST_CASE("fatal: a bad image is named, and how to go on") {
  const TempDir dir;
  const std::string root = dir.path().string();
  write_bad_folder(root);
  const Warnings warnings;
  const auto data = open(root, BadImages::kFatal);
  CHECK(data->class_names() == std::vector<std::string>{"bird", "cat", "dog"});
  REQUIRE(warnings.lines().size() == 1);
  CHECK(has(warnings.lines()[0], "class 'bird'"));
  std::vector<float> image(size_t{8} * 8 * 3);
  CHECK(data->get(0, image) == 1);
  for (const auto& [index, words] : {std::pair{1,
                                               "cat/101.png: wanted a JPEG or PNG image, got a "
                                               "file that begins with 'text, wh'"},
                                     std::pair{5,
                                               "dog/100.png: the header announces 60000 x 60000 "
                                               "pixels; wanted 1 to 100000000"},
                                     std::pair{9, "dog/104.jpg: corrupt JPEG: the file ends"}}) {
    CHECK_THROWS_WITH_AS(data->get(index, image), doctest::Contains(words), BadImage);
    CHECK_THROWS_WITH_AS(data->get(index, image), doctest::Contains("--bad-images skip"), BadImage);
  }
  CHECK(data->skipped().empty());
}

TEST_CASE("skip: the next good image, named once, the same for everyone") {
  const TempDir dir;
  const std::string root = dir.path().string();
  write_bad_folder(root);
  const Warnings warnings;
  const auto data = open(root, BadImages::kSkip);
  std::vector<float> image(size_t{8} * 8 * 3), other(image);
  for (int round = 0; round < 2; ++round) {
    for (const auto& [bad, good, label] :
         {std::tuple{1, 2, 1}, std::tuple{5, 6, 2}, std::tuple{9, 0, 1}}) {
      CHECK(data->get(bad, image) == label);
      CHECK(data->sample(0, bad, image) == label);
      CHECK(data->get(bad, image) == label);
      CHECK(data->get(good, other) == label);
      CHECK(image == other);
    }
  }
  CHECK(data->skipped() == std::vector<int64_t>{1, 5, 9});
  REQUIRE(warnings.lines().size() == 4);
  CHECK(has(warnings.lines()[1], "skipped: decode_image: "));
  CHECK(has(warnings.lines()[1], "cat/101.png"));

  // A file that cannot be read is another matter: it says nothing about the image.
  fs::remove(root + "/train/cat/102.jpg");
  CHECK_THROWS_AS(data->get(2, image), IoError);

  const TempDir all_bad;
  write_image(all_bad / "train/a/1.png", "bad");
  write_image(all_bad / "train/a/2.png", "worse");
  write_image(all_bad / "val/a/2.png", "worse");
  CHECK_THROWS_WITH_AS(open(all_bad.path().string(), BadImages::kSkip)->get(1, image),
                       doctest::Contains("none of the 2 images"), IoError);
}

TEST_CASE("batches are the same for any number of threads and ranks, with bad images too") {
  const TempDir dir;
  const std::string root = dir.path().string();
  write_bad_folder(root);
  const Warnings warnings;
  // Two epochs of one process are what the others must see.
  const auto run = [&](int workers, int ranks) {
    std::vector<float> pixels;
    std::vector<int64_t> labels;
    std::vector<std::unique_ptr<DataLoader>> loaders;
    for (int rank = 0; rank < ranks; ++rank) {
      // Each with a data set of its own, as in processes.
      const auto data = open(root, BadImages::kSkip, true);
      const DistributedSampler sampler({.size = data->size(),
                                        .batch_size = 4 / ranks,
                                        .rank = rank,
                                        .world_size = ranks,
                                        .seed = 9,
                                        .last_batch = LastBatch::kPad});
      loaders.push_back(
          std::make_unique<DataLoader>(data, sampler, LoaderOptions{.workers = workers}));
    }
    for (int64_t epoch = 0; epoch < 2; ++epoch) {
      for (auto& loader : loaders) loader->begin_epoch(epoch);
      for (int64_t k = 0; k < loaders[0]->batches(); ++k) {
        for (auto& loader : loaders) {
          const auto batch = loader->next();
          REQUIRE(batch.has_value());
          CHECK(batch->size() == 4 / ranks);
          const auto inputs = batch->inputs.to_vector<float>();
          const auto targets = batch->targets.to_vector<int64_t>();
          pixels.insert(pixels.end(), inputs.begin(), inputs.end());
          labels.insert(labels.end(), targets.begin(), targets.end());
        }
      }
      for (auto& loader : loaders) CHECK(!loader->next());
    }
    return std::pair(pixels, labels);
  };
  const auto wanted = run(0, 1);
  CHECK(wanted.second.size() == 24);
  for (const auto& [workers, ranks] : {std::pair{3, 1}, std::pair{0, 2}, std::pair{2, 4}})
    CHECK(run(workers, ranks) == wanted);
}
