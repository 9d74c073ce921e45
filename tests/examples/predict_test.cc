// lockstep predict, with a run of train_resnet that can tell two pictures apart.
#include "lockstep/base/error.h"
#include "lockstep/tests/data/image_files.h"
#include "lockstep/tests/examples/trainer_process.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace lockstep {
namespace {

using namespace testing;

bool has(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

TEST_CASE("predict names the class; what it cannot decode is told, and the rest done") {
  const TempDir dir;
  const std::string root = dir / "images", run = dir / "run";
  for (int i = 0; i < 16; ++i) {
    for (const char* split : {"/train/", "/val/"}) {
      write_image(str(root, split, "cat/", i, ".jpg"), golden_image("full.jpg"));
      write_image(str(root, split, "dog/", i, ".png"), golden_image("palette.png"));
    }
  }
  const auto trained =
      run_trainer({"--dataset", "folder", "--data-dir", root, "--image-size", "16", "--epochs", "6",
                   "--batch-size", "8", "--threads", "1", "--output-dir", run});
  REQUIRE_MESSAGE(trained->exit_code() == 0, trained->err());
  REQUIRE_MESSAGE(has(trained->out(), "test accuracy 100.00 %"), trained->out());

  const auto predict = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {program_path("tools/lockstep"), "predict"});
    auto process = std::make_unique<Process>(arguments);
    process->wait();
    return process;
  };
  const std::string last = run + "/last.safetensors";
  const std::string cat = root + "/val/cat/1.jpg", dog = root + "/val/dog/1.png";
  const auto both = predict({last, cat, dog, "--data-dir", root, "--top", "1"});
  REQUIRE_MESSAGE(both->exit_code() == 0, both->err());
  const std::string out = both->out();
  CAPTURE(out);
  CHECK(std::count(out.begin(), out.end(), '\n') == 4);
  CHECK(out.starts_with(cat + "\n"));
  CHECK(out.find(" %  cat\n") < out.find(dog + "\n"));
  CHECK(out.find(dog + "\n") < out.find(" %  dog\n"));
  CHECK(has(out, " %  dog\n"));

  write_image(dir / "text.png", "no picture");
  const auto partly = predict({last, dir / "text.png", dog});
  CHECK(partly->exit_code() == 1);
  CHECK(has(partly->err(), dir / "text.png"));
  // The checkpoint knows its classes; train_resnet has the same command.
  CHECK(has(partly->out(), " %  dog\n"));
  CHECK(has(partly->out(), " %  cat\n"));
  const auto same = run_trainer({"predict", last, cat, dog, "--top", "1"});
  CHECK(same->exit_code() == 0);
  CHECK(same->out() == out);
  const auto evaluated = run_trainer({"evaluate", last, "--data-dir", root, "--threads", "1"});
  CHECK_MESSAGE(has(evaluated->out(), "test accuracy 100.00 %"), evaluated->err());

  write_image(dir / "other/train/bird/1.png", golden_image("rgb.png"));
  write_image(dir / "other/val/bird/1.png", golden_image("rgb.png"));
  const auto other = predict({last, dog, "--data-dir", dir / "other"});
  CHECK(other->exit_code() == 1);
  CHECK(has(other->err(), "wanted the 2 classes"));
  for (const char* name : {"train/cat", "train/wolf", "val/cat", "val/wolf"}) {
    write_image(str(dir / "renamed/", name, "/1.png"), golden_image("rgb.png"));
  }
  const auto renamed = run_trainer({"evaluate", last, "--data-dir", dir / "renamed"});
  CHECK(renamed->exit_code() != 0);
  CHECK(has(renamed->err(), "wanted class 1 to be dog"));
  CHECK(predict({dir / "text.png", dog})->exit_code() == 1);
}

}  // namespace
}  // namespace lockstep
