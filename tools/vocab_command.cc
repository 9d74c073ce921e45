#include "lockstep/base/error.h"
#include "lockstep/data/text/train_vocabulary.h"
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
  std::string output;
  bool cased = false, keep_accents = false;
  VocabularyOptions options;
};

int train(const Arguments& arguments) {
  VocabularyOptions options = arguments.options;
  options.words.lower_case = !arguments.cased;
  if (arguments.keep_accents) options.words.strip_accents = false;
  Progress progress(stdout);
  options.progress = [&](const std::string& text) { progress.update("vocab: " + text); };
  const Vocabulary vocabulary = train_vocabulary(arguments.texts, options);
  vocabulary.write(arguments.output);
  std::string line = str(arguments.output, ": ", vocabulary.size(), " tokens");
  if (vocabulary.size() < options.size) {
    line += str(" instead of ", options.size, ": no other pair is there ", options.min_frequency,
                " times or more");
  }
  progress.say(line);
  return 0;
}

}  // namespace

Command vocab_command(CLI::App& program) {
  CLI::App* app =
      program.add_subcommand("vocab", "Make a WordPiece vocabulary for texts, as BERT reads it");
  app->footer(
      "Example: lockstep vocab corpus.txt --size 8000 -o vocab.txt\n"
      "The same text and options give the same file, to the byte.");
  const auto arguments = std::make_shared<Arguments>();
  app->add_option("texts", arguments->texts, "Text files, UTF-8")->required();
  app->add_option("-o,--output", arguments->output, "The vocabulary, a token in each line")
      ->required();
  app->add_option("--size", arguments->options.size, "Tokens at most, with the special ones")
      ->check(CLI::Range(int64_t{6}, int64_t{1} << 24));
  app->add_flag("--cased", arguments->cased,
                "Tell capitals from small letters, and keep accents; use --cased wherever this "
                "vocabulary is used");
  app->add_flag("--keep-accents", arguments->keep_accents, "Keep accents in lower case too");
  app->add_option("--min-frequency", arguments->options.min_frequency,
                  "Join two pieces that are side by side at least this often")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  app->add_option("--alphabet-limit", arguments->options.alphabet_limit,
                  "Characters at most, the most frequent ones; words with others become [UNK]")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 21));
  return {app, [arguments] { return train(*arguments); }};
}

}  // namespace lockstep::tools
