#include "lockstep/base/error.h"
#include "lockstep/data/text/corpus.h"
#include "lockstep/train/progress.h"

#include "command.h"

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::tools {
namespace {

struct Arguments {
  std::vector<std::string> texts;
  std::string vocab, output;
  bool cased = false, keep_accents = false;
  int64_t shard_mb = 1024;
};

/// "1.234 million", for counts of any size.
std::string count_text(int64_t count) {
  char text[32];
  if (count < 1'000'000) {
    std::snprintf(text, sizeof text, "%lld", static_cast<long long>(count));
  } else {
    std::snprintf(text, sizeof text, "%.3f million", static_cast<double>(count) * 1e-6);
  }
  return text;
}

int tokenize(const Arguments& arguments) {
  WordPieceOptions words{.lower_case = !arguments.cased};
  if (arguments.keep_accents) words.strip_accents = false;
  const WordPiece tokenizer(Vocabulary::read(arguments.vocab), words);
  Progress progress(stdout);
  TokenizeOptions options{.shard_bytes = arguments.shard_mb << 20};
  options.progress = [&](int64_t done, int64_t all) {
    progress.update(str("tokenize: ", done >> 20, "/", all >> 20, " MiB"));
  };
  const TokenizeResult done = write_tokens(arguments.texts, tokenizer, arguments.output, options);
  char unknown[32];
  std::snprintf(unknown, sizeof unknown, "%.2f %%",
                100.0 * static_cast<double>(done.unknown) / static_cast<double>(done.tokens));
  progress.say(str(arguments.output, ": ", count_text(done.tokens), " tokens, ", unknown,
                   " of them [UNK], in ", done.lines, " lines and ", done.documents,
                   done.documents == 1 ? " document, " : " documents, ", done.shards,
                   done.shards == 1 ? " file" : " files"));
  return 0;
}

}  // namespace

Command tokenize_command(CLI::App& program) {
  CLI::App* app =
      program.add_subcommand("tokenize", "Turn texts into token ids that trainers map into memory");
  app->footer(
      "Example: lockstep tokenize corpus.txt --vocab vocab.txt -o corpus.tokens\n"
      "An empty line ends a document. Trainers take text files as well: this saves the work when "
      "there is much text,\nand memory, because the processes of a machine share the file.");
  const auto arguments = std::make_shared<Arguments>();
  app->add_option("texts", arguments->texts, "Text files, UTF-8")->required();
  app->add_option("--vocab", arguments->vocab, "vocab.txt: a token in each line")->required();
  app->add_option("-o,--output", arguments->output,
                  "The token file; what does not fit goes to OUTPUT.1, OUTPUT.2, ...")
      ->required();
  app->add_flag("--cased", arguments->cased, "The vocabulary tells capitals from small letters");
  app->add_flag("--keep-accents", arguments->keep_accents, "Keep accents in lower case too");
  app->add_option("--shard-mb", arguments->shard_mb,
                  "MiB of a file, about; up to three times as much memory is taken")
      ->check(CLI::Range(1, 1 << 20));
  return {app, [arguments] { return tokenize(*arguments); }};
}

}  // namespace lockstep::tools
