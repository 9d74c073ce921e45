// train_resnet on folders of images, whatever lies in them, and on shards that lockstep pack made.
#include "lockstep/tests/data/image_files.h"
#include "lockstep/tests/examples/trainer_process.h"

#include <doctest/doctest.h>

namespace lockstep {
namespace {

using namespace testing;

bool has(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

std::string metrics_without_times(const std::string& path) {
  std::string kept;
  const std::string text = read_text(path);
  for (const char* key : {"\"loss\":", "\"accuracy\":", "\"test_loss\":"}) {
    for (size_t at = text.find(key); at != text.npos; at = text.find(key, at + 1))
      kept += text.substr(at, text.find_first_of(",}", at) - at) + " ";
  }
  return kept;
}

std::vector<std::string> with(std::vector<std::string> more) {
  more.insert(more.end(), {"--image-size", "16", "--epochs", "2", "--threads", "1"});
  return more;
}

void write_bad_folder(const std::string& root) {
  write_good_folder(root, 8);
  const std::string jpeg = golden_image("baseline.jpg");
  write_image(root + "/train/cat/101.png", "text, whatever the name says\n");
  write_image(root + "/train/dog/100.png", png_of_size(60000, 60000));
  write_image(root + "/train/dog/104.jpg", jpeg.substr(0, jpeg.size() / 2));
  std::filesystem::create_directories(root + "/train/bird");
}

TEST_CASE("bad images: fatal by name, or skipped with a count and the ranks in step") {
  const TempDir dir;
  const std::string root = dir / "images";
  write_bad_folder(root);
  const std::vector<std::string> run = {"--dataset", "folder", "--data-dir", root};
  for (const char* ranks : {"1", "2"}) {
    std::vector<std::string> arguments = with(run);
    arguments.insert(arguments.end(),
                     {"--nproc", ranks, "--batch-size", ranks[0] == '1' ? "8" : "4"});
    const auto fatal = run_trainer(arguments);
    CAPTURE(fatal->err());
    CHECK(fatal->exit_code() == 1);
    CHECK(has(fatal->err(), root + "/train/"));
    CHECK(has(fatal->err(), "--bad-images skip goes on without it"));

    arguments.insert(arguments.end(), {"--bad-images", "skip", "--augment", "--output-dir",
                                       dir / (std::string("out") + ranks), "--log-interval", "1"});
    const auto skip = run_trainer(arguments);
    CAPTURE(skip->err());
    CHECK(skip->exit_code() == 0);
    CHECK(has(skip->err(), "warning: image_folder: class 'bird' has no images"));
    CHECK(has(skip->out(), "skipped 3 of 16 training and 0 of 4 test images"));
    // What another rank says is in its log.
    std::string words = skip->err();
    for (const auto& entry : std::filesystem::recursive_directory_iterator(dir.path())) {
      if (entry.path().extension() == ".log") words += read_text(entry.path().string());
    }
    for (const char* bad : {"cat/101.png", "dog/100.png", "dog/104.jpg"}) {
      CHECK(has(words, std::string("warning: skipped: decode_image: ") + root + "/train/" + bad));
    }
  }
}

TEST_CASE("packed shards train as the folder does") {
  const TempDir dir;
  const std::string root = dir / "images";
  write_bad_folder(root);
  const auto pack = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {program_path("tools/lockstep"), "pack", root});
    auto process = std::make_unique<Process>(more);
    process->ends_within(kDeadline);
    return process;
  };
  const auto fatal = pack({dir / "fatal"});
  CHECK(fatal->exit_code() == 1);
  CHECK(has(fatal->err(), "train/cat/101.png"));
  const auto good = pack({dir / "packed", "--bad-images", "skip"});
  CAPTURE(good->err());
  CHECK(good->exit_code() == 0);
  CHECK(has(good->out(), "train: 13 images"));
  CHECK(has(good->out(), "1 shard, 3 skipped"));
  CHECK(has(good->out(), "val: 4 images"));
  CHECK(has(pack({dir / "packed", "--bad-images", "skip"})->err(), "is not empty"));

  // Without the bad files the folder has the same images in the same order.
  for (const char* bad : {"cat/101.png", "dog/100.png", "dog/104.jpg"})
    std::filesystem::remove(root + "/train/" + bad);
  for (const auto& [name, data] : {std::pair{"folder", root}, {"packed", dir / "packed"}}) {
    std::vector<std::string> arguments =
        with({"--dataset", name, "--data-dir", data, "--augment", "--batch-size", "4",
              "--color-jitter", "0.4,0.4,0.4,0.1", "--output-dir",
              dir / (std::string("run-") + name), "--log-interval", "1"});
    const auto run = run_trainer(arguments);
    CAPTURE(run->err());
    CHECK(run->exit_code() == 0);
  }
  const std::string folder = metrics_without_times(dir / "run-folder/metrics.jsonl");
  CHECK(!folder.empty());
  CHECK(folder == metrics_without_times(dir / "run-packed/metrics.jsonl"));
}

TEST_CASE("flags that do not go together, folders that are none") {
  const TempDir dir;
  const std::string root = dir.path().string();
  const auto refused = [](std::vector<std::string> arguments, const std::string& words) {
    const auto run = run_trainer(arguments);
    CAPTURE(run->err());
    CHECK((run->exit_code() == 1 || run->exit_code() == 2));
    CHECK(has(run->err(), words));
  };
  refused({"--dataset", "folder"}, "wants a --data-dir with train/CLASS/IMAGE");
  refused({"--dataset", "packed"}, "wants a --data-dir with the shards");
  refused({"--dataset", "cifar10"}, "wants a --data-dir with data_batch_1.bin");
  refused({"--image-size", "32"}, "--image-size is for --dataset folder and packed");
  refused({"--dataset", "packed", "--data-dir", root, "--val-fraction", "0.1"},
          "--val-fraction is for --dataset folder");
  refused({"--dataset", "folder", "--data-dir", root, "--color-jitter", "0.4"}, "want --augment");
  refused({"--dataset", "folder", "--data-dir", root, "--mean", "0.4"}, "--mean");
  refused({"--dataset", "folder", "--data-dir", root, "--image-size", "64", "--resize-size", "32"},
          "--resize-size wants at least the --image-size, 64");
  refused({"--dataset", "folder", "--data-dir", root}, "wanted --val-fraction");
  refused({"--dataset", "folder", "--data-dir", root, "--val-fraction", "0.1"},
          "wanted a sub-folder for each class");
  refused({"--dataset", "packed", "--data-dir", root}, "train-00000.pack is missing");
}

}  // namespace
}  // namespace lockstep
