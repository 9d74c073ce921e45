// A text as token ids, from wherever: text files, or what `lockstep tokenize` made of them.
#pragma once

#include "lockstep/data/text/token_file.h"
#include "lockstep/data/text/word_piece.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

/// Tokens in lines in documents, each numbered from 0 over all files. Immutable, so safe from any
/// thread. Mapped files are read when touched, and shared between the processes of a machine.
class Corpus {
 public:
  virtual ~Corpus();

  int64_t tokens() const { return tokens_; }
  int64_t lines() const { return lines_; }
  int64_t documents() const { return documents_; }
  const Vocabulary& vocabulary() const { return vocabulary_; }

  /// Where a line begins, in tokens; 0 <= line <= lines(), where the last is tokens().
  int64_t line_begin(int64_t line) const;
  /// Where a document begins, in lines; 0 <= document <= documents().
  int64_t document_begin(int64_t document) const;
  /// The line that token `i` is in.
  int64_t line_of(int64_t i) const;

  /// Appends the ids of the tokens [begin, end). Throws IoError for an id that the vocabulary has
  /// not: the file is damaged.
  void read(int64_t begin, int64_t end, std::vector<int32_t>& to) const;

 protected:
  explicit Corpus(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}
  void add(TokenShard shard, std::string name);

 private:
  struct Part {
    TokenShard shard;
    std::string name;
    int64_t tokens, lines, documents;  // before it
  };
  const Part& part_of(int64_t Part::*before, int64_t index) const;

  Vocabulary vocabulary_;
  std::vector<Part> parts_;
  int64_t tokens_ = 0, lines_ = 0, documents_ = 0;
};

/// The files one after the other. A token file (with its further shards) is mapped; it must have
/// been made with the vocabulary and the case options of `tokenizer`. Any other file is text, and
/// is tokenised now, into memory: a sentence or paragraph in each line, an empty line between
/// documents; each file begins a document. Throws IoError: a file that cannot be read, is empty or
/// no UTF-8, has no token; a shard that is missing, damaged, or made with another vocabulary.
std::shared_ptr<const Corpus> open_corpus(const std::vector<std::string>& paths,
                                          const WordPiece& tokenizer);
/// The same of lines in memory, one document.
std::shared_ptr<const Corpus> corpus_of_lines(const std::vector<std::string>& lines,
                                              const WordPiece& tokenizer);

struct TokenizeOptions {
  int64_t shard_bytes = int64_t{1} << 30;  // about; filling it takes up to three times the memory
  /// Called now and then with the bytes of text that are done and all.
  std::function<void(int64_t done, int64_t all)> progress = nullptr;
};

struct TokenizeResult {
  int64_t tokens = 0, unknown = 0, lines = 0, documents = 0, bytes = 0;
  uint32_t shards = 0;
};

/// Writes the tokens of text files as the token file `output` and, where it grows beyond
/// shard_bytes, further shards. Each appears whole or not at all; without the last they are refused
/// when read. Throws IoError.
TokenizeResult write_tokens(const std::vector<std::string>& texts, const WordPiece& tokenizer,
                            const std::string& output, const TokenizeOptions& options = {});

}  // namespace lockstep
