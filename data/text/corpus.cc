#include "lockstep/data/text/corpus.h"

#include "lockstep/base/error.h"
#include "lockstep/data/text/text_file.h"
#include "lockstep/io/mapped_file.h"

#include <algorithm>
#include <filesystem>
#include <utility>

namespace lockstep {

Corpus::~Corpus() = default;

void Corpus::add(TokenShard shard, std::string name) {
  const Part part{shard, std::move(name), tokens_, lines_, documents_};
  tokens_ += shard.tokens;
  lines_ += shard.lines;
  documents_ += shard.documents;
  parts_.push_back(part);
}

/// The part with number `index`, counted in what `before` counts.
const Corpus::Part& Corpus::part_of(int64_t Part::*before, int64_t index) const {
  const auto after =
      std::upper_bound(parts_.begin(), parts_.end(), index,
                       [&](int64_t i, const Part& part) { return i < part.*before; });
  return *(after - 1);
}

int64_t Corpus::line_begin(int64_t line) const {
  check(0 <= line && line <= lines_, "Corpus::line_begin: wanted a line in [0, ", lines_, "], got ",
        line);
  if (line == lines_) return tokens_;
  const Part& part = part_of(&Part::lines, line);
  const int64_t local = line - part.lines;
  return part.tokens + (local == 0 ? 0 : part.shard.line_end(local - 1));
}

int64_t Corpus::document_begin(int64_t document) const {
  check(0 <= document && document <= documents_,
        "Corpus::document_begin: wanted a document in [0, ", documents_, "], got ", document);
  if (document == documents_) return lines_;
  const Part& part = part_of(&Part::documents, document);
  const int64_t local = document - part.documents;
  return part.lines + (local == 0 ? 0 : part.shard.document_end(local - 1));
}

int64_t Corpus::line_of(int64_t i) const {
  check(0 <= i && i < tokens_, "Corpus::line_of: wanted a token in [0, ", tokens_, "), got ", i);
  const Part& part = part_of(&Part::tokens, i);
  int64_t low = 0, high = part.shard.lines - 1;  // the first line that ends behind the token
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (part.shard.line_end(middle) > i - part.tokens) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return part.lines + low;
}

void Corpus::read(int64_t begin, int64_t end, std::vector<int32_t>& to) const {
  check(0 <= begin && begin <= end && end <= tokens_, "Corpus::read: wanted tokens in [0, ",
        tokens_, "], got [", begin, ", ", end, ")");
  const auto known = static_cast<uint32_t>(vocabulary_.size());
  while (begin < end) {
    const Part& part = part_of(&Part::tokens, begin);
    const int64_t stop = std::min(end, part.tokens + part.shard.tokens);
    for (; begin < stop; ++begin) {
      const uint32_t id = part.shard.id(begin - part.tokens);
      if (id >= known) {
        throw IoError(str("tokens: ", part.name, ": token ", begin - part.tokens,
                          ": wanted an id below ", known, ", got ", id, "; the file is damaged"));
      }
      to.push_back(static_cast<int32_t>(id));
    }
  }
}

namespace {

/// Lines of text into a buffer; empty ones end documents.
class LineTokenizer {
 public:
  LineTokenizer(const WordPiece& tokenizer, TokenBuffer& buffer)
      : tokenizer_(tokenizer), buffer_(buffer) {}

  void add(std::string_view line) {
    if (is_blank(line)) return buffer_.end_document();
    ids_.clear();
    tokenizer_.encode(line, ids_);
    buffer_.add_line(ids_);
  }

 private:
  const WordPiece& tokenizer_;
  TokenBuffer& buffer_;
  std::vector<int32_t> ids_;
};

class OpenCorpus final : public Corpus {
 public:
  explicit OpenCorpus(const WordPiece& tokenizer)
      : Corpus(tokenizer.vocabulary()), tokenizer_(tokenizer) {}

  void add_file(const std::string& path) {
    auto file = std::make_unique<MappedFile>(path);
    if (is_token_file(file->bytes())) {
      add_shards(path, std::move(file));
      return;
    }
    const TextFile text(path);
    TokenBuffer buffer(origin_of(tokenizer_));
    LineTokenizer lines(tokenizer_, buffer);
    text.for_each_line([&](std::string_view line, int64_t) { lines.add(line); });
    add_buffer(buffer, path);
  }

  void add_lines(const std::vector<std::string>& lines) {
    TokenBuffer buffer(origin_of(tokenizer_));
    LineTokenizer each(tokenizer_, buffer);
    for (const std::string& line : lines) each.add(line);
    add_buffer(buffer, "lines in memory");
  }

 private:
  void add_buffer(TokenBuffer& buffer, const std::string& name) {
    if (buffer.empty()) throw IoError(str("text: ", name, ": wanted text, got blank lines alone"));
    memory_.push_back(std::make_unique<std::vector<uint8_t>>(buffer.finish(0, true, 0)));
    add(parse_tokens(*memory_.back(), name), name);
  }

  void add_shards(const std::string& path, std::unique_ptr<MappedFile> first) {
    uint64_t hash_before = 0;
    for (uint32_t number = 0;; ++number) {
      const std::string name = token_shard_path(path, number);
      std::error_code ignored;
      if (number > 0 && !std::filesystem::exists(name, ignored)) {
        throw IoError(
            str("tokens: ", name, " is missing; the shard before it is not the last one"));
      }
      files_.push_back(number == 0 ? std::move(first) : std::make_unique<MappedFile>(name));
      const TokenShard shard = parse_tokens(files_.back()->bytes(), name);
      check_origin(shard.origin, name);
      if (shard.number != number || shard.hash_before != hash_before) {
        throw IoError(str("tokens: ", name, ": wanted shard ", number, " of ", path, ", got shard ",
                          shard.number,
                          " of another corpus or of another run of 'lockstep tokenize'"));
      }
      hash_before = shard.hash;
      const bool last = shard.last;
      add(shard, name);
      if (last) return;
    }
  }

  void check_origin(const TokenOrigin& got, const std::string& name) const {
    const TokenOrigin wanted = origin_of(tokenizer_);
    if (got == wanted) return;
    const auto words = [](const TokenOrigin& o) {
      return str(o.vocabulary_size, " tokens (", std::hex, o.vocabulary_hash, std::dec,
                 o.lower_case ? "), lower case" : "), cased",
                 o.strip_accents ? ", no accents" : "");
    };
    throw IoError(str("tokens: ", name, ": wanted a vocabulary of ", words(wanted), "; got one of ",
                      words(got),
                      "; tokenize the text again, or give the vocabulary of that file"));
  }

  WordPiece tokenizer_;
  std::vector<std::unique_ptr<MappedFile>> files_;
  std::vector<std::unique_ptr<std::vector<uint8_t>>> memory_;
};

}  // namespace

std::shared_ptr<const Corpus> open_corpus(const std::vector<std::string>& paths,
                                          const WordPiece& tokenizer) {
  check(!paths.empty(), "open_corpus: wanted at least one file, got none");
  auto corpus = std::make_shared<OpenCorpus>(tokenizer);
  for (const std::string& path : paths) corpus->add_file(path);
  return corpus;
}

std::shared_ptr<const Corpus> corpus_of_lines(const std::vector<std::string>& lines,
                                              const WordPiece& tokenizer) {
  auto corpus = std::make_shared<OpenCorpus>(tokenizer);
  corpus->add_lines(lines);
  return corpus;
}

}  // namespace lockstep
