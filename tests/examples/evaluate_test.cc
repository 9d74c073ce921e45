// train_resnet evaluate: the numbers that training printed, once more.
#include "lockstep/tests/examples/trainer_process.h"
#include "lockstep/tests/support/temp_dir.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

namespace lockstep {
namespace {

using namespace testing;

bool has(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

/// "test accuracy 97.21 %, test loss 0.1, 359 samples" of the last line that has it.
std::string result_of(const std::string& out) {
  const size_t at = out.rfind("test accuracy ", out.rfind(" samples\n"));
  return at == out.npos ? "none" : out.substr(at, out.find('\n', at) - at);
}

TEST_CASE("evaluate gives what training printed, on any number of processes") {
  const TempDir dir;
  const std::string run = dir / "run", last = run + "/last.safetensors";
  const auto trained =
      run_trainer({"--nproc", "2", "--threads", "1", "--epochs", "3", "--ema-decay", "0.9",
                   "--eval-batch-size", "50", "--output-dir", run});
  REQUIRE_MESSAGE(trained->exit_code() == 0, trained->err());
  const std::string wanted = result_of(trained->out());
  CHECK_MESSAGE(has(wanted, "359 samples"), trained->out());

  const auto evaluate = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "evaluate");
    arguments.insert(arguments.end(), {"--threads", "1", "--eval-batch-size", "50"});
    return run_trainer(arguments);
  };
  for (const char* nproc : {"1", "2", "3"}) {
    const auto again = evaluate({last, "--nproc", nproc});
    CHECK_MESSAGE(again->exit_code() == 0, again->err());
    CHECK(result_of(again->out()) == wanted);
    CHECK(has(again->out(), "resnet8, averaged weights; digits"));
  }
  const auto raw = evaluate({last, "--raw-weights"});
  CHECK(has(raw->out(), "resnet8; digits"));
  CHECK(result_of(raw->out()) != wanted);

  // The same weights in torchvision's format.
  const std::string weights = dir / "weights.safetensors";
  Process exported({program_path("tools/lockstep"), "export", last, weights, "--ema"});
  REQUIRE_MESSAGE(exported.wait() == 0, exported.err());
  const auto other = evaluate({weights, "--model", "resnet8", "--dataset", "digits"});
  CHECK_MESSAGE(other->exit_code() == 0, other->err());
  CHECK(result_of(other->out()) == wanted);

  const auto refused = [&](const std::vector<std::string>& arguments, int code,
                           const std::string& words) {
    const auto run = evaluate(arguments);
    CHECK(run->exit_code() == code);
    CHECK_MESSAGE(has(run->err(), words), run->err());
    const std::string err = run->err();
    CHECK(std::count(err.begin(), err.end(), '\n') == 1);
  };
  refused({weights}, 2, "notes no data set");
  refused({weights, "--dataset", "digits"}, 2, "want --model");
  refused({weights, "--model", "resnet20", "--dataset", "digits"}, 2, "weights.safetensors");
  refused({last, "--dataset", "synthetic"}, 1, "wanted images of 1 channels in 10 classes");
  refused({last, "--dataset", "folder"}, 2, "wants a --data-dir");
  refused({last, "--image-size", "32"}, 2, "--image-size is for");
  refused({dir / "none.safetensors"}, 1, "none.safetensors");
  refused({run + "/metrics.jsonl"}, 1, "metrics.jsonl");
  // A float of ones everywhere is no number.
  std::string spoilt = read_text(weights);
  std::fill(spoilt.end() - 40, spoilt.end(), '\xff');
  write_file(dir / "spoilt.safetensors", spoilt);
  refused({dir / "spoilt.safetensors", "--model", "resnet8", "--dataset", "digits"}, 1,
          "is not a finite number");
  const auto before = run_trainer({"--epochs", "3", "evaluate", last});
  CHECK(before->exit_code() == 2);
  CHECK_MESSAGE(has(before->err(), "--epochs is for training"), before->err());
}

}  // namespace
}  // namespace lockstep
