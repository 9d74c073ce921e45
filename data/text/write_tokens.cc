#include "lockstep/base/error.h"
#include "lockstep/data/text/corpus.h"
#include "lockstep/data/text/text_file.h"
#include "lockstep/io/atomic_file.h"

#include <algorithm>
#include <filesystem>

namespace lockstep {
namespace {

/// Fills a buffer and writes it when it is full.
class ShardWriter {
 public:
  ShardWriter(const WordPiece& tokenizer, const std::string& output, int64_t shard_bytes)
      : tokenizer_(tokenizer),
        output_(output),
        most_(static_cast<uint64_t>(shard_bytes)),
        buffer_(origin_of(tokenizer)) {}

  void add(std::string_view line) {
    if (is_blank(line)) return end_document();
    ids_.clear();
    tokenizer_.encode(line, ids_);
    if (ids_.empty()) return;
    // A full one is written only now, so that the last one is known as such.
    if (full_) write(false);
    result_.unknown += std::count(ids_.begin(), ids_.end(), tokenizer_.vocabulary().unknown());
    buffer_.add_line(ids_);
    // A document without end must not take all memory: it is cut.
    if (buffer_.bytes() / 2 >= most_) end_document();
  }

  void end_document() {
    buffer_.end_document();
    full_ = buffer_.bytes() >= most_;
  }

  TokenizeResult finish() {
    if (!buffer_.empty()) write(true);
    return result_;
  }

 private:
  void write(bool last) {
    buffer_.end_document();
    result_.tokens += buffer_.tokens();
    result_.lines += buffer_.lines();
    result_.documents += buffer_.documents();
    const std::vector<uint8_t> bytes = buffer_.finish(result_.shards, last, hash_);
    hash_ = parse_tokens(bytes, output_).hash;
    AtomicFile file(token_shard_path(output_, result_.shards));
    file.write(bytes.data(), bytes.size());
    file.commit();
    result_.bytes += static_cast<int64_t>(bytes.size());
    ++result_.shards;
    full_ = false;
  }

  const WordPiece& tokenizer_;
  const std::string& output_;
  uint64_t most_;
  TokenBuffer buffer_;
  std::vector<int32_t> ids_;
  bool full_ = false;
  uint64_t hash_ = 0;
  TokenizeResult result_;
};

}  // namespace

TokenizeResult write_tokens(const std::vector<std::string>& texts, const WordPiece& tokenizer,
                            const std::string& output, const TokenizeOptions& options) {
  check(!texts.empty() && options.shard_bytes >= 1,
        "write_tokens: wanted at least one file and shards of at least 1 byte, got ", texts.size(),
        " files and ", options.shard_bytes);
  int64_t all = 0, done = 0, told = 0;
  for (const std::string& path : texts) {  // all are looked at before anything is written
    all += static_cast<int64_t>(TextFile(path).text().size());
    std::error_code ignored;
    check(!std::filesystem::equivalent(path, output, ignored), "write_tokens: ", output,
          " is the text itself; choose another output");
  }
  ShardWriter writer(tokenizer, output, options.shard_bytes);
  for (const std::string& path : texts) {
    const TextFile text(path);
    text.for_each_line([&](std::string_view line, int64_t) {
      writer.add(line);
      done += static_cast<int64_t>(line.size()) + 1;
      if (options.progress && done - told >= 1 << 20) options.progress(told = done, all);
    });
    writer.end_document();
  }
  const TokenizeResult result = writer.finish();
  if (result.shards == 0)
    throw IoError(str("text: ", texts[0], ": wanted text, got blank lines alone"));
  return result;
}

}  // namespace lockstep
