// train_bert pretrain, and what can be done with what it leaves.
#include "lockstep/io/safetensors.h"
#include "lockstep/tests/examples/bert_process.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace lockstep {
namespace {

using namespace testing;

bool has(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

std::vector<std::string> with(std::vector<std::string> words,
                              const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::unique_ptr<Process> lockstep_command(const std::vector<std::string>& arguments) {
  return run_program("tools/lockstep", arguments);
}

TEST_CASE("pretrain, predict, embed, export") {
  const TempDir dir;
  write_file(dir / "corpus.txt", small_corpus(400));
  const std::string run = dir / "run";
  const auto trained = run_bert("pretrain", {"--train-file",
                                             dir / "corpus.txt",
                                             "--vocab-size",
                                             "100",
                                             "--nproc",
                                             "2",
                                             "--batch-size",
                                             "16",
                                             "--max-steps",
                                             "240",
                                             "--lr",
                                             "0.01",
                                             "--line-by-line",
                                             "--warmup-steps",
                                             "20",
                                             "--evaluate-every",
                                             "25",
                                             "--log-interval",
                                             "40",
                                             "--hidden-dropout-prob",
                                             "0",
                                             "--attention-probs-dropout-prob",
                                             "0",
                                             "--output-dir",
                                             run});
  const std::string out = trained->out();
  REQUIRE_MESSAGE(trained->exit_code() == 0, trained->err());
  CHECK_MESSAGE(has(out, "BERT 1 x 32"), out);
  CHECK_MESSAGE(has(out, "before training: masked accuracy"), out);
  CHECK_MESSAGE(has(out, "step 25/240: masked accuracy"), out);
  // Its neighbours tell of a word: far below what frequencies give.
  const double first = number_after(out, "masked loss "), last = number_after(out, "training, "),
               unigram = number_after(out, "at best; ");
  CHECK_MESSAGE(first > unigram, out);
  CHECK_MESSAGE(last < 0.6 * unigram, out);
  const std::string metrics = read_text(run + "/metrics.jsonl");
  for (const char* field : {"\"tokens_per_second\":", "\"kind\":\"evaluation\"",
                            "\"test_masked_tokens\":", "\"kind\":\"epoch\""}) {
    CHECK_MESSAGE(has(metrics, field), field);
  }
  const auto config = nlohmann::json::parse(read_text(run + "/config.json"));
  CHECK(config["hidden_size"] == 32);
  CHECK(config["intermediate_size"] == 128);
  const std::string vocabulary = read_text(run + "/vocab.txt");
  CHECK(std::count(vocabulary.begin(), vocabulary.end(), '\n') == config["vocab_size"]);

  const auto predicted =
      run_bert("predict", {run, "king queen [MASK] crown queen [MASK]", "--top", "3"});
  REQUIRE_MESSAGE(predicted->exit_code() == 0, predicted->err());
  const std::string words = predicted->out();
  CHECK_MESSAGE(std::count(words.begin(), words.end(), '%') == 6, words);
  CHECK_MESSAGE(has(words, "[MASK] 2\n"), words);
  for (const char* mask : {"[MASK] 1\n", "[MASK] 2\n"}) {
    const std::string likely = words.substr(words.find("%  ", words.find(mask)) + 3, 5);
    CHECK_MESSAGE((has(likely, "king") || likely == "queen" || likely == "crown"), words);
  }

  const std::string folder = dir / "hf";
  const auto exported = lockstep_command({"export", run + "/best.safetensors", folder});
  REQUIRE_MESSAGE(exported->exit_code() == 0, exported->err());
  const TensorFile theirs = read_safetensors(folder + "/model.safetensors");
  CHECK(theirs.at("bert.encoder.layer.0.attention.self.query.weight").shape() == Shape{32, 32});
  CHECK(read_text(folder + "/vocab.txt") == vocabulary);
  const auto again =
      run_bert("predict", {folder, "king queen [MASK] crown queen [MASK]", "--top", "3"});
  CHECK_MESSAGE(again->out() == words, again->err());

  write_file(dir / "lines.txt", "king queen\nking queen\nrain cloud and thunder\n\n");
  const auto vectors = run_bert("embed", {run, dir / "lines.txt"});
  REQUIRE_MESSAGE(vectors->exit_code() == 0, vectors->err());
  const std::string tsv = vectors->out();
  CHECK(std::count(tsv.begin(), tsv.end(), '\n') == 4);
  CHECK(std::count(tsv.begin(), tsv.end(), '\t') == 4 * 31);
  const size_t second = tsv.find('\n') + 1, third = tsv.find('\n', second) + 1;
  CHECK(tsv.substr(0, second) == tsv.substr(second, third - second));
  for (const char* source : {run.c_str(), folder.c_str()}) {
    const std::string file = dir / "vectors.safetensors";
    const auto written = run_bert("embed", {source, dir / "lines.txt", "-o", file});
    REQUIRE_MESSAGE(written->exit_code() == 0, written->err());
    const auto values = read_safetensors(file).at("embeddings").to_vector<float>();
    REQUIRE(values.size() == 4 * 32);
    for (size_t row = 0; row < 4; ++row) {
      double squares = 0;
      for (size_t i = 0; i < 32; ++i) squares += std::pow(values[row * 32 + i], 2);
      CHECK(squares == doctest::Approx(1).epsilon(1e-5));
    }
    CHECK(values[0] == doctest::Approx(std::strtod(tsv.c_str(), nullptr)).epsilon(1e-5));
  }
  const auto npy = run_bert("embed", {run, dir / "lines.txt", "-o", dir / "vectors.npy"});
  REQUIRE(npy->exit_code() == 0);
  const std::string bytes = read_text(dir / "vectors.npy");
  CHECK(bytes.starts_with("\x93NUMPY"));
  CHECK((bytes.size() - 4 * 32 * sizeof(float)) % 64 == 0);
  CHECK(has(bytes, "'shape': (4, 32)"));
}

TEST_CASE("three processes are one, whatever the number of masked tokens that each has") {
  const TempDir dir;
  write_file(dir / "corpus.txt", small_corpus(300));
  const auto train = [&](const char* name, const std::vector<std::string>& more) {
    const auto run = run_bert(
        "pretrain", with({"--train-file", dir / "corpus.txt", "--vocab-size", "100",
                          "--line-by-line", "--max-steps", "12", "--optimizer", "sgd", "--lr",
                          "0.2", "--warmup-steps", "0", "--hidden-dropout-prob", "0",
                          "--attention-probs-dropout-prob", "0", "--output-dir", dir / name},
                         more));
    REQUIRE_MESSAGE(run->exit_code() == 0, run->err());
    return number_after(run->out(), "training, ");
  };
  const double whole = train("one", {"--batch-size", "12"});
  // f32 sums in another order.
  for (const auto& [name, flags] : std::vector<std::pair<const char*, std::vector<std::string>>>{
           {"three", {"--batch-size", "4", "--nproc", "3"}},
           {"naive", {"--batch-size", "4", "--nproc", "3", "--ddp-mode", "naive"}},
           {"accumulated", {"--batch-size", "2", "--nproc", "3", "--grad-accum-steps", "2"}}}) {
    CAPTURE(name);
    CHECK(train(name, flags) == doctest::Approx(whole).epsilon(1e-3));
    CHECK(difference(dir / "one/last.safetensors", (dir / name) + "/last.safetensors") < 1e-4);
  }
}

TEST_CASE("evaluations may mask another share of the tokens than training does") {
  const TempDir dir;
  write_file(dir / "corpus.txt", small_corpus(300));
  write_file(dir / "other.txt", small_corpus(200));
  for (const std::vector<std::string>& validation :
       {std::vector<std::string>{"--validation-split-percentage", "40"},
        std::vector<std::string>{"--validation-file", dir / "other.txt"}}) {
    const auto evaluated_tokens = [&](const std::vector<std::string>& more) {
      const auto run =
          run_bert("pretrain", with(with({"--train-file", dir / "corpus.txt", "--vocab-size", "100",
                                          "--max-steps", "2", "--line-by-line"},
                                         validation),
                                    more));
      REQUIRE_MESSAGE(run->exit_code() == 0, run->err());
      const std::string out = run->out();
      const size_t end = out.find(" masked tokens");
      REQUIRE(end != out.npos);
      return std::strtod(out.c_str() + out.rfind(' ', end - 1), nullptr);
    };
    const double as_trained = evaluated_tokens({});
    CHECK(as_trained > 100);
    CHECK(evaluated_tokens({"--mlm-probability", "0.5", "--eval-mlm-probability", "0.15"}) ==
          as_trained);
    CHECK(evaluated_tokens({"--eval-mlm-probability", "0.5"}) > 2 * as_trained);
  }
}

TEST_CASE("next sentences, whole words, LAMB, a validation file, tokens instead of text") {
  const TempDir dir;
  write_file(dir / "corpus.txt", small_corpus(300));
  write_file(dir / "other.txt", small_corpus(60));
  const std::string run = dir / "run";
  const auto trained = run_bert("pretrain", {"--train-file",
                                             dir / "corpus.txt",
                                             "--validation-file",
                                             dir / "other.txt",
                                             "--vocab-size",
                                             "60",
                                             "--nsp",
                                             "--whole-word-mask",
                                             "--optimizer",
                                             "lamb",
                                             "--lr",
                                             "0.01",
                                             "--nproc",
                                             "2",
                                             "--epochs",
                                             "1",
                                             "--ema-decay",
                                             "0.9",
                                             "--output-dir",
                                             run});
  REQUIRE_MESSAGE(trained->exit_code() == 0, trained->err());
  CHECK_MESSAGE(has(trained->out(), ", next-sentence accuracy "), trained->out());
  CHECK(has(read_text(run + "/metrics.jsonl"), "\"test_next_sentence_accuracy\":"));
  const auto config = nlohmann::json::parse(read_text(run + "/config.json"));
  CHECK(config["architectures"][0] == "BertForPreTraining");
  const auto predicted = run_bert("predict", {run + "/last.safetensors", "king [MASK]"});
  CHECK_MESSAGE(predicted->exit_code() == 0, predicted->err());

  const std::string tokens = dir / "corpus.tokens";
  const auto tokenized = lockstep_command(
      {"tokenize", "--vocab", run + "/vocab.txt", dir / "corpus.txt", "-o", tokens});
  REQUIRE_MESSAGE(tokenized->exit_code() == 0, tokenized->err());
  const auto from_tokens = run_bert(
      "pretrain", {"--train-file", tokens, "--vocab", run + "/vocab.txt", "--max-steps", "3"});
  CHECK_MESSAGE(from_tokens->exit_code() == 0, from_tokens->err());
}

TEST_CASE("flags from a file") {
  const TempDir dir;
  write_file(dir / "corpus.txt", small_corpus(100));
  write_file(dir / "run.toml", "[pretrain]\nmax_steps = 2\nbatch-size = 5\nvocab-size = 60\n");
  const auto run = run_program(kTrainBert, with({"--config", dir / "run.toml", "pretrain",
                                                 "--train-file", dir / "corpus.txt"},
                                                small_model()));
  REQUIRE_MESSAGE(run->exit_code() == 0, run->err());
  CHECK_MESSAGE(has(run->out(), "global batch 5 = 1 x 5"), run->out());
  CHECK_MESSAGE(has(run->out(), "step 2/2"), run->out());
}

}  // namespace
}  // namespace lockstep
