// train_bert finetune: from scratch, from a pretraining, and what its checkpoints say.
#include "lockstep/models/bert_config.h"
#include "lockstep/tests/examples/bert_process.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <vector>

namespace lockstep {
namespace {

using namespace testing;

bool has(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

TEST_CASE("classes of texts, from a pretraining and from scratch") {
  const TempDir dir;
  write_file(dir / "corpus.txt", small_corpus(200) + "sun moon sun moon sun moon.\n");
  write_file(dir / "train.tsv", small_labelled_text(240));
  write_file(dir / "test.tsv", small_labelled_text(60));
  const std::string base = dir / "base";
  const auto trained = run_bert("pretrain", {"--train-file", dir / "corpus.txt", "--vocab-size",
                                             "100", "--max-steps", "20", "--output-dir", base});
  REQUIRE_MESSAGE(trained->exit_code() == 0, trained->err());

  const auto finetune = [&](const char* epochs, std::vector<std::string> more) {
    more.insert(more.end(),
                {"--train-file", dir / "train.tsv", "--threads", "1", "--epochs", epochs, "--lr",
                 "0.003", "--batch-size", "8", "--max-seq-length", "16"});
    return run_bert("finetune", more);
  };
  const auto tuned = finetune("8", {"--init-weights", base, "--validation-file", dir / "test.tsv",
                                    "--nproc", "2", "--output-dir", dir / "tuned"});
  REQUIRE_MESSAGE(tuned->exit_code() == 0, tuned->err());
  CHECK_MESSAGE(has(tuned->out(), "240 training and 60 validation texts of 2 classes"),
                tuned->out());
  CHECK_MESSAGE(has(tuned->out(), "weights from " + base + "/best.safetensors: "), tuned->out());
  CHECK_MESSAGE(number_after(tuned->out(), "test accuracy ") > 95, tuned->out());
  const auto config = nlohmann::json::parse(read_text(dir / "tuned/config.json"));
  CHECK(config["architectures"][0] == "BertForSequenceClassification");

  const auto predicted = run_bert("predict", {dir / "tuned", "king moon queen", "king sun queen"});
  REQUIRE_MESSAGE(predicted->exit_code() == 0, predicted->err());
  const std::string said = predicted->out();
  const size_t night = said.find("night"), day = said.find("day");
  CHECK_MESSAGE(night < day, said);  // of the first text
  CHECK_MESSAGE(said.rfind("day") < said.rfind("night"), said);

  const std::string folder = dir / "hf";
  const auto exported =
      run_program("tools/lockstep", {"export", dir / "tuned/best.safetensors", folder});
  REQUIRE_MESSAGE(exported->exit_code() == 0, exported->err());
  const auto further = finetune("1", {"--init-weights", folder});
  CHECK_MESSAGE(further->exit_code() == 0, further->err());
  CHECK_MESSAGE(has(further->out(), "228 training and 12 validation texts"), further->out());

  const auto scratch =
      finetune("8", {"--vocab", base + "/vocab.txt", "--hidden-size", "32", "--num-hidden-layers",
                     "1", "--num-attention-heads", "2", "--classifier-pooling", "mean",
                     "--output-dir", dir / "scratch"});
  REQUIRE_MESSAGE(scratch->exit_code() == 0, scratch->err());
  CHECK_MESSAGE(number_after(scratch->out(), "test accuracy ") > 90, scratch->out());
  CHECK(read_bert_config(dir / "scratch/config.json").classifier_pooling == "mean");
}

}  // namespace
}  // namespace lockstep
