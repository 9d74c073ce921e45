// lockstep inspect.
#include "lockstep/io/safetensors.h"
#include "lockstep/tests/support/process.h"
#include "lockstep/tests/support/temp_dir.h"
#include "lockstep/train/checkpoint.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace lockstep {
namespace {

using testing::Process;
using testing::TempDir;

struct Result {
  int code;
  std::string out, err;
};

Result inspect(const std::string& argument) {
  Process run({testing::program_path("tools/lockstep"), "inspect", argument});
  const int code = run.wait();
  return {code, run.out(), run.err()};
}

/// Runs of blanks as one.
std::string squeezed(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c != ' ' || !out.ends_with(' ')) out += c;
  }
  return out;
}

void has(const std::string& text, const std::string& part) {
  CHECK_MESSAGE(text.find(part) != text.npos, "wanted \"", part, "\" in:\n", text);
}

TEST_CASE("a plain file: each tensor, totals, metadata; nothing reaches the console raw") {
  const TempDir dir;
  const std::string path = dir / "a.safetensors";
  write_safetensors(path,
                    std::vector<NamedTensor>{{"w", Tensor::zeros({2, 3}, DType::kF32)},
                                             {"steps", Tensor::zeros({}, DType::kI64)},
                                             {"evil\x1b[2J\n", Tensor::zeros({5}, DType::kBF16)}},
                    {{"format", "pt"}, {"who", "me"}});
  const Result shown = inspect(path);
  REQUIRE_MESSAGE(shown.code == 0, shown.err);
  has(squeezed(shown.out), "\nw f32 [2, 3] 6\n");
  has(squeezed(shown.out), "\nsteps i64 [] 1\n");
  has(squeezed(shown.out), "\nevil?[2J? bf16 [5] 5\n");
  has(shown.out, "total: 3 tensors, 12 parameters, 42 bytes\n");
  has(shown.out, "metadata: format, who\n");
  CHECK(shown.out.find('\x1b') == shown.out.npos);
  CHECK(shown.out.find("checkpoint") == shown.out.npos);
}

TEST_CASE("a checkpoint: position and traits") {
  const TempDir dir;
  const std::string path = dir / "c.safetensors";
  Checkpoint checkpoint;
  checkpoint.position = {.step = 120, .epoch = 3, .batch = 7};
  checkpoint.best_accuracy = 0.9525;
  checkpoint.traits = {{"--model", "resnet8"}, {"--seed", "4"}};
  checkpoint.model = {{"fc.weight", Tensor::zeros({4, 5}, DType::kF32)}};
  checkpoint.ema = {{"fc.weight", Tensor::zeros({4, 5}, DType::kF32)}};
  checkpoint.rng = Tensor::zeros({2, 2}, DType::kI64);
  checkpoint.meter = Tensor::zeros({2, 3}, DType::kF64);
  write_checkpoint(path, checkpoint);
  const Result shown = inspect(path);
  REQUIRE_MESSAGE(shown.code == 0, shown.err);
  has(shown.out, "of which the model and its buffers: 1 tensor, 20 parameters, 80 bytes\n");
  has(shown.out, "checkpoint at step 120, epoch 3, batch 7; best accuracy 95.25 %\n");
  has(shown.out, "  --model resnet8\n  --seed 4\n");
}

TEST_CASE("only the header is read") {
  const TempDir dir;
  const std::string path = dir / "large.safetensors";
  constexpr uint64_t kBytes = uint64_t{64} << 30;
  const std::string json = str("{\"big\":{\"dtype\":\"U8\",\"shape\":[", kBytes,
                               "],\"data_offsets\":[0,", kBytes, "]}}");
  const uint64_t length = json.size();
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(&length), 8) << json;
  std::filesystem::resize_file(path, 8 + length + kBytes);  // sparse
  const Result shown = inspect(path);
  REQUIRE_MESSAGE(shown.code == 0, shown.err);
  has(shown.out, str("total: 1 tensor, ", kBytes, " parameters"));
}

TEST_CASE("what is none is refused in one line; help has an example") {
  const TempDir dir;
  testing::write_file(dir / "text", "hello, this is no tensor file at all");
  testing::write_file(dir / "short", "abc");
  for (const std::string name : {"text", "short", "absent"}) {
    const Result refused = inspect(dir / name);
    CAPTURE(refused.err);
    CHECK(refused.code == 1);
    CHECK(refused.out.empty());
    CHECK(refused.err.starts_with("lockstep: "));
    has(refused.err, dir / name);
    CHECK(std::count(refused.err.begin(), refused.err.end(), '\n') == 1);
  }
  CHECK(inspect("--wrong").code == 2);
  const Result help = inspect("--help");
  CHECK(help.code == 0);
  has(help.out, "Example: lockstep inspect ");
}

}  // namespace
}  // namespace lockstep
