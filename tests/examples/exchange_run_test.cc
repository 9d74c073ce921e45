// Weights out of one run of train_resnet, through lockstep export, into another.
#include "lockstep/tests/examples/trainer_process.h"
#include "lockstep/tests/support/temp_dir.h"

#include "lockstep/io/safetensors.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <string_view>

namespace lockstep {
namespace {

using testing::Process;
using testing::run_trainer;
using testing::TempDir;

int lockstep_export(const std::vector<std::string>& arguments, std::string& err) {
  std::vector<std::string> command{testing::program_path("tools/lockstep"), "export"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  Process run(command);
  const int code = run.wait();
  err = run.err();
  return code;
}

void has(const std::string& text, std::string_view part) {
  CHECK_MESSAGE(text.find(part) != text.npos, "wanted \"", part, "\" in:\n", text);
}

double first_loss(const std::string& out) {
  const size_t at = out.find("loss ");
  return at == out.npos ? -1 : std::stod(out.substr(at + 5));
}

TEST_CASE("train, export, start another run from it") {
  const TempDir dir;
  const std::vector<std::string> common{"--threads", "1", "--epochs", "2", "--log-interval", "1"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), common.begin(), common.end());
    return more;
  };
  const auto first = run_trainer(with({"--output-dir", dir / "one", "--ema-decay", "0.9"}));
  REQUIRE_MESSAGE(first->exit_code() == 0, first->err());
  const std::string last = dir / "one/last.safetensors", out = dir / "out.safetensors";
  std::string err;
  REQUIRE_MESSAGE(lockstep_export({last, out}, err) == 0, err);

  const TensorFile checkpoint = read_safetensors(last), exported = read_safetensors(out);
  CHECK(exported.metadata.at("model") == "resnet8");
  const Tensor& ours = checkpoint.at("layer2.0.conv1.weight");
  CHECK(ours.shape() == Shape{32, 3, 3, 16});
  CHECK(exported.at("layer2.0.conv1.weight").shape() == Shape{32, 16, 3, 3});
  CHECK(exported.at("bn1.num_batches_tracked").data<int64_t>()[0] > 0);
  CHECK(std::none_of(exported.tensors.begin(), exported.tensors.end(),
                     [](const NamedTensor& t) { return t.name.find('/') != t.name.npos; }));
  const auto* theirs = exported.at("layer2.0.conv1.weight").data<float>();
  // [o, h, w, i] = [1, 2, 0, 5]
  CHECK(theirs[((1 * 16 + 5) * 3 + 2) * 3 + 0] ==
        ours.data<float>()[((1 * 3 + 2) * 3 + 0) * 16 + 5]);

  REQUIRE_MESSAGE(lockstep_export({last, dir / "ema.safetensors", "--ema"}, err) == 0, err);
  const Tensor average = read_safetensors(dir / "ema.safetensors").at("fc.bias");
  CHECK(average.to_vector<float>() == checkpoint.at("ema/average.fc.bias").to_vector<float>());
  CHECK(average.to_vector<float>() != exported.at("fc.bias").to_vector<float>());

  const auto second = run_trainer(
      with({"--init-weights", out, "--nproc", "2", "--output-dir", dir / "two", "--seed", "5"}));
  REQUIRE_MESSAGE(second->exit_code() == 0, second->err());
  has(second->out(), "tensors loaded\n");
  CHECK(first_loss(first->out()) > 1.5);
  CHECK_MESSAGE(first_loss(second->out()) < 0.7 * first_loss(first->out()), second->out());

  // Another shape of stem, and more blocks: refused, and taken in part on request.
  const std::vector<std::string> other{"--init-weights", out,          "--dataset", "synthetic",
                                       "--output-dir",   dir / "three"};
  const auto refused = run_trainer(with(other));
  CHECK(refused->exit_code() == 2);
  const std::string told = refused->err();
  has(told, "--partial takes what fits");
  CHECK(std::count(told.begin(), told.end(), '\n') == 1);
  const auto partial =
      run_trainer(with({"--init-weights", out, "--model", "resnet20", "--partial"}));
  REQUIRE_MESSAGE(partial->exit_code() == 0, partial->err());
  has(partial->out(), str("weights from ", out, ": ", exported.tensors.size(), " of "));
}

TEST_CASE("export refuses what is no checkpoint, and to overwrite the one it reads") {
  const TempDir dir;
  std::string err;
  testing::write_file(dir / "text", "no tensors here");
  CHECK(lockstep_export({dir / "text", dir / "out"}, err) == 1);
  has(err, dir / "text");
  write_safetensors(dir / "plain",
                    std::vector<NamedTensor>{{"w", Tensor::zeros({2}, DType::kF32)}});
  CHECK(lockstep_export({dir / "plain", dir / "out"}, err) == 1);
  has(err, "wanted a checkpoint");
  CHECK(lockstep_export({dir / "plain", dir / "plain"}, err) == 2);
  CHECK(testing::read_text(dir / "out").empty());
}

}  // namespace
}  // namespace lockstep
