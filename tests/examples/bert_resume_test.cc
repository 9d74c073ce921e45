// Killed, a pretraining goes on from its last checkpoint and ends as if nothing had happened.
#include "lockstep/tests/examples/bert_process.h"

#include <doctest/doctest.h>
#include <signal.h>

#include <filesystem>

namespace lockstep {
namespace {

using namespace testing;

constexpr int kKilled = 128 + SIGKILL;

std::unique_ptr<Process> train(const TempDir& dir, const std::string& name, const char* ranks,
                               const ProcessOptions& options = {}) {
  // Dropout, masks and weights of the ranks' batches: all of it is to go on.
  return run_bert("pretrain",
                  {"--train-file",
                   dir / "corpus.txt",
                   "--vocab-size",
                   "80",
                   "--nproc",
                   ranks,
                   "--batch-size",
                   "4",
                   "--grad-accum-steps",
                   "2",
                   "--max-steps",
                   "30",
                   "--warmup-steps",
                   "3",
                   "--checkpoint-every",
                   "4",
                   "--evaluate-every",
                   "10",
                   "--bucket-cap-mb",
                   "0.02",
                   "--first-bucket-cap-mb",
                   "0.01",
                   "--output-dir",
                   dir / name,
                   "--resume",
                   "auto"},
                  options);
}

TEST_CASE("killed around checkpoints") {
  for (const char* ranks : {"1", "3"}) {
    CAPTURE(ranks);
    const TempDir dir;
    write_file(dir / "corpus.txt", small_corpus(300));
    const auto whole = train(dir, "whole", ranks);
    REQUIRE_MESSAGE(whole->exit_code() == 0, whole->err());
    // vocab.txt, tokenizer_config.json, config.json, run.json and two logs come first.
    for (const char* point :
         {"atomic_file.before_rename@5", "atomic_file.after_rename@8", "atomic_file.after_write@60",
          "atomic_file.before_rename@12", "atomic_file.after_rename@12"}) {
      CAPTURE(point);
      const std::string name = std::string("cut") + point;
      const auto cut = train(dir, name, ranks, {.env = {{"LOCKSTEP_FAILPOINT", point}}});
      REQUIRE_MESSAGE(cut->exit_code() == kKilled, cut->out() << cut->err());
      // The vocabulary is the run's own, even where it would be made another now.
      const bool begun = std::filesystem::exists((dir / name) + "/last.safetensors");
      const auto rest = train(dir, name, ranks);
      REQUIRE_MESSAGE(rest->exit_code() == 0, rest->err());
      if (begun) {
        CHECK_MESSAGE(rest->out().find("resumed from ") != std::string::npos, rest->out());
      }
      for (const char* file : {"/last.safetensors", "/best.safetensors", "/vocab.txt"}) {
        CHECK(read_text((dir / name) + file) == read_text((dir / "whole") + file));
      }
    }
  }
}

TEST_CASE("a run does not go on with another part of the text held out") {
  const TempDir dir;
  write_file(dir / "corpus.txt", small_corpus(300));
  const auto train = [&](const char* percentage) {
    return run_bert("pretrain", {"--train-file", dir / "corpus.txt", "--vocab-size", "80",
                                 "--max-steps", "2", "--validation-split-percentage", percentage,
                                 "--output-dir", dir / "run", "--resume", "auto"});
  };
  const auto first = train("10");
  REQUIRE_MESSAGE(first->exit_code() == 0, first->err());
  const auto other = train("30");
  CHECK(other->exit_code() == 2);
  CHECK_MESSAGE(other->err().find("--train-file (training sequences)") != std::string::npos,
                other->err());
}

}  // namespace
}  // namespace lockstep
