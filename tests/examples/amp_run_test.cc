// train_resnet --amp bf16: as accurate as without, and a trait of the checkpoint.
#include "lockstep/tests/examples/trainer_process.h"
#include "lockstep/tests/support/temp_dir.h"

#include <doctest/doctest.h>

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

TEST_CASE("a ResNet-8 learns digits in mixed precision, evaluates and resumes in it") {
  const TempDir dir;
  const std::string run = dir / "run", last = run + "/last.safetensors";
  const auto trained = run_trainer(
      {"--nproc", "2", "--threads", "1", "--epochs", "12", "--amp", "bf16", "--output-dir", run});
  REQUIRE_MESSAGE(trained->exit_code() == 0, trained->err());
  CHECK(has(trained->out(), "; mixed precision, bf16"));
  const std::string result = result_of(trained->out());
  CAPTURE(result);
  REQUIRE(result != "none");
  // f32 reaches 96 to 98 % from several seeds; 359 images, so 1 % is three to four of them.
  CHECK(std::stod(result.substr(result.find("accuracy ") + 9)) > 95);

  const auto again = run_trainer({"evaluate", last, "--nproc", "2", "--threads", "1"});
  CHECK_MESSAGE(again->exit_code() == 0, again->err());
  CHECK(result_of(again->out()) == result);

  const auto refused = run_trainer({"--nproc", "2", "--threads", "1", "--epochs", "13",
                                    "--output-dir", run, "--resume", "auto"});
  CHECK(refused->exit_code() == 2);
  CHECK_MESSAGE(has(refused->err(), "--amp bf16"), refused->err());
  const auto wrong = run_trainer({"--amp", "fp16"});
  CHECK(wrong->exit_code() == 2);
}

}  // namespace
}  // namespace lockstep
