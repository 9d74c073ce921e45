// train_bert --uneven join: three processes, the first of which have nothing in an epoch's last
// batch, train as one process with the whole batch does.
#include "lockstep/tests/examples/bert_process.h"

#include <doctest/doctest.h>

namespace lockstep {
namespace {

using namespace testing;

struct Runs {
  TempDir dir;

  /// The checkpoint of a run of two epochs without dropout.
  std::string train(const std::string& name, const std::string& command, int ranks, int batch,
                    const std::vector<std::string>& more) {
    // Gradients and not their signs, as Adam's first steps: those turn rounding into differences.
    std::vector<std::string> all{"--nproc",
                                 std::to_string(ranks),
                                 "--batch-size",
                                 std::to_string(batch),
                                 "--epochs",
                                 "2",
                                 "--optimizer",
                                 "sgd",
                                 "--lr",
                                 "0.5",
                                 "--hidden-dropout-prob",
                                 "0",
                                 "--attention-probs-dropout-prob",
                                 "0",
                                 "--output-dir",
                                 dir / name};
    all.insert(all.end(), more.begin(), more.end());
    const auto run = run_bert(command, all);
    REQUIRE_MESSAGE(run->exit_code() == 0, run->err());
    return dir / (name + "/last.safetensors");
  }
};

// Sums in another order, over four steps.
constexpr double kRounding = 1e-4;

TEST_CASE("pretrain: masked tokens and next sentences of the last batch count as in one process") {
  for (const char* kind : {"--line-by-line", "--nsp"}) {
    CAPTURE(kind);
    Runs runs;
    write_file(runs.dir / "corpus.txt", small_corpus(100));
    write_file(runs.dir / "validation.txt", small_corpus(40));
    const std::vector<std::string> more{"--train-file",
                                        runs.dir / "corpus.txt",
                                        "--validation-file",
                                        runs.dir / "validation.txt",
                                        "--vocab-size",
                                        "100",
                                        "--check-replicas-every",
                                        "1",
                                        kind};
    auto with = [&](const char* policy) {
      auto all = more;
      all.insert(all.end(), {"--uneven", policy});
      return all;
    };
    // 100 and 118 sequences: one more than three such batches.
    const int batch = std::string(kind) == "--nsp" ? 39 : 33;
    const auto one = runs.train("one", "pretrain", 1, 3 * batch, with("join"));
    const auto three = runs.train("three", "pretrain", 3, batch, with("join"));
    CHECK(difference(three, one) < kRounding);
    CHECK(difference(runs.train("drop", "pretrain", 3, batch, with("drop")), one) >
          100 * kRounding);
  }
}

TEST_CASE("finetune: each text of the last batch counts as in one process") {
  Runs runs;
  write_file(runs.dir / "corpus.txt", small_corpus(100));
  write_file(runs.dir / "train.tsv", small_labelled_text(100));
  write_file(runs.dir / "test.tsv", small_labelled_text(20));
  const auto base =
      run_bert("pretrain", {"--train-file", runs.dir / "corpus.txt", "--vocab-size", "100",
                            "--max-steps", "1", "--output-dir", runs.dir / "base"});
  REQUIRE_MESSAGE(base->exit_code() == 0, base->err());
  const std::vector<std::string> more{
      "--train-file", runs.dir / "train.tsv",      "--validation-file", runs.dir / "test.tsv",
      "--vocab",      runs.dir / "base/vocab.txt", "--uneven",          "join"};
  const auto one = runs.train("one", "finetune", 1, 99, more);
  CHECK(difference(runs.train("three", "finetune", 3, 33, more), one) < kRounding);
}

}  // namespace
}  // namespace lockstep
