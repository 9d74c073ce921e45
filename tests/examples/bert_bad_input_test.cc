// Whatever is wrong with what it is given, train_bert says so in one line, once, and returns 1
// or 2.
#include "lockstep/tests/examples/bert_process.h"
#include "lockstep/tests/examples/refused.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <vector>

namespace lockstep {
namespace {

using namespace testing;

void refused(const std::vector<std::string>& arguments, const std::string& words) {
  check_refused(kTrainBert, arguments, words);
}

TEST_CASE("pretraining") {
  const TempDir dir;
  const std::string corpus = dir / "corpus.txt";
  write_file(corpus, small_corpus(100));
  write_file(dir / "empty.txt", "");
  write_file(dir / "blank.txt", "\n  \n");
  write_file(dir / "latin1.txt", "a caf\xe9 here\n");
  const auto with = [&](std::vector<std::string> more) {
    // Two processes, which are never started.
    std::vector<std::string> words{"pretrain", "--nproc", "2", "--hidden-size", "32"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  refused({}, "subcommand");
  refused({"pretrain"}, "--train-file is required");
  refused(with({"--train-file", dir / "none.txt"}), "none.txt");
  refused(with({"--train-file", dir / "empty.txt"}), "empty.txt");
  refused(with({"--train-file", dir / "blank.txt"}), "blank.txt");
  refused(with({"--train-file", dir / "latin1.txt"}), "latin1.txt");
  refused(with({"--train-file", dir.path()}), dir.path());
  refused(with({"--train-file", corpus, "--vocab-size", "16"}), "16");
  refused(with({"--train-file", corpus, "--vocab", dir / "empty.txt"}), "empty.txt");
  refused(with({"--train-file", corpus, "--max-seq-length", "1024"}),
          "--max-seq-length: wanted at most 512");
  refused(with({"--train-file", corpus, "--num-attention-heads", "5"}), "5");
  refused(with({"--train-file", corpus, "--max-seq-length", "16", "--batch-size", "100000"}),
          "smaller batch size");
  refused(with({"--train-file", corpus}), "too few to hold some of them out");
  refused(with({"--train-file", corpus, "--epochs", "2", "--max-steps", "5"}), "--max-steps");
  refused(with({"--train-file", corpus, "--nsp", "--line-by-line"}), "--nsp");
  refused(with({"--train-file", corpus, "--mlm-probability", "1"}), "--mlm-probability");
  refused(with({"--train-file", corpus, "--vocab", "v", "--vocab-size", "100"}), "--vocab");
  refused(with({"--train-file", corpus, "--resume", "auto"}), "--output-dir");
  write_file(
      dir / "config.json",
      R"({"model_type": "bert", "vocab_size": 30522, "hidden_size": 64, "num_hidden_layers": 1,
                 "num_attention_heads": 1, "intermediate_size": 64, "max_position_embeddings": 512,
                 "type_vocab_size": 2})");
  refused({"pretrain", "--train-file", corpus, "--config-name", dir / "config.json",
           "--max-seq-length", "16"},
          "vocab_size of");
  CHECK(!std::filesystem::exists(dir / "run"));
}

TEST_CASE("a run that goes on as another one") {
  const TempDir dir;
  write_file(dir / "corpus.txt", small_corpus(100));
  const std::vector<std::string> flags{"--train-file", dir / "corpus.txt", "--vocab-size",
                                       "80",           "--max-steps",      "2",
                                       "--output-dir", dir / "run"};
  const auto first = run_bert("pretrain", flags);
  REQUIRE_MESSAGE(first->exit_code() == 0, first->err());
  const auto again = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words{"pretrain"};
    for (const auto& part : {small_model(), flags, more}) {
      words.insert(words.end(), part.begin(), part.end());
    }
    return words;
  };
  refused(again({}), "not empty");
  refused(again({"--resume", "auto", "--mlm-probability", "0.2"}), "--mlm-probability 0.15");
  refused(again({"--resume", "auto", "--whole-word-mask"}), "--whole-word-mask off");
  refused(again({"--resume", "auto", "--hidden-dropout-prob", "0"}), "--hidden-dropout-prob 0.1");
  write_file(dir / "corpus.txt", small_corpus(120));
  refused(again({"--resume", "auto"}), "--train-file (tokens)");
}

TEST_CASE("fine-tuning, predict and embed") {
  const TempDir dir;
  write_file(dir / "corpus.txt", small_corpus(100));
  write_file(dir / "train.tsv", small_labelled_text(40));
  write_file(dir / "other.tsv", "the old king\tmorning\n");
  write_file(dir / "empty.tsv", "");
  const std::string base = dir / "base", train = dir / "train.tsv";
  const auto first = run_bert("pretrain", {"--train-file", dir / "corpus.txt", "--vocab-size", "80",
                                           "--max-steps", "2", "--output-dir", base});
  REQUIRE_MESSAGE(first->exit_code() == 0, first->err());
  const auto with = [&](std::vector<std::string> more) {
    std::vector<std::string> words{"finetune", "--nproc",      "2", "--init-weights",
                                   base,       "--batch-size", "4"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  refused({"finetune", "--train-file", train}, "wanted --init-weights");
  refused({"finetune", "--train-file", train, "--init-weights", dir / "none"}, "none");
  refused({"finetune", "--train-file", train, "--init-weights", dir.path()}, "model.safetensors");
  refused(with({"--train-file", train, "--model", "base"}), "it takes no --model");
  refused(with({"--max-seq-length", "16", "--train-file", dir / "empty.tsv"}), "empty.tsv");
  refused(with({"--max-seq-length", "16", "--train-file", train, "--validation-file",
                dir / "other.tsv"}),
          "morning");
  refused(with({"--train-file", train}), "--max-seq-length: wanted at most 32");

  refused({"predict", base, "no mask here"}, "[MASK]");
  std::string long_text = "[MASK]";
  for (int i = 0; i < 40; ++i) long_text += " king";
  refused({"predict", base, long_text}, "at most 32 tokens");
  refused({"predict", dir / "corpus.txt", "[MASK]"}, "corpus.txt");
  refused({"embed", base, dir / "none.txt"}, "none.txt");
  refused({"embed", base, dir / "empty.tsv"}, "empty.tsv");
  refused({"embed", base, dir / "corpus.txt", "-o", dir / "vectors.csv"}, ".npy");
  // A vocabulary of more tokens than the model has rows.
  write_file(base + "/vocab.txt", read_text(base + "/vocab.txt") + "extra\nwords\n");
  refused({"predict", base, "[MASK]"}, "vocab.txt");
}

}  // namespace
}  // namespace lockstep
