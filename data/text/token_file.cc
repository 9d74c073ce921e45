#include "lockstep/data/text/token_file.h"

#include "lockstep/base/error.h"
#include "lockstep/base/fnv.h"
#include "lockstep/data/text/token_format.h"
#include "lockstep/io/little_endian.h"

#include <algorithm>

namespace lockstep {
namespace {

int id_bytes_for(uint32_t vocabulary_size) { return vocabulary_size <= 65'536 ? 2 : 4; }

uint64_t padded(uint64_t bytes) { return (bytes + 7) / 8 * 8; }

/// Whether `ends` grow, from 1 to `last`.
bool grow(std::span<const uint8_t> ends, uint64_t last) {
  uint64_t before = 0;
  for (uint64_t at = 0; at < ends.size(); at += 8) {
    const uint64_t end = load_u64(ends, at);
    if (end <= before || end > last) return false;
    before = end;
  }
  return before == last;
}

}  // namespace

TokenOrigin origin_of(const WordPiece& tokenizer) {
  return {.vocabulary_hash = tokenizer.vocabulary().hash(),
          .vocabulary_size = static_cast<uint32_t>(tokenizer.vocabulary().size()),
          .lower_case = tokenizer.lower_case(),
          .strip_accents = tokenizer.strip_accents()};
}

uint32_t TokenShard::id(int64_t i) const {
  const auto at = static_cast<uint64_t>(i) * static_cast<uint64_t>(id_bytes);
  return id_bytes == 2 ? uint32_t{ids[at]} | uint32_t{ids[at + 1]} << 8 : load_u32(ids, at);
}

int64_t TokenShard::line_end(int64_t line) const {
  return static_cast<int64_t>(load_u64(line_ends, static_cast<uint64_t>(line) * 8));
}

int64_t TokenShard::document_end(int64_t document) const {
  return static_cast<int64_t>(load_u64(document_ends, static_cast<uint64_t>(document) * 8));
}

bool is_token_file(std::span<const uint8_t> bytes) {
  return bytes.size() >= kTokenMagic.size() &&
         std::equal(kTokenMagic.begin(), kTokenMagic.end(), bytes.begin());
}

TokenShard parse_tokens(std::span<const uint8_t> bytes, const std::string& name) {
  const auto fail = [&](const auto&... parts) {
    throw IoError(str("tokens: ", name, ": ", parts...));
  };
  if (bytes.size() < kTokenHeaderBytes || !is_token_file(bytes)) {
    fail("wanted a file made by 'lockstep tokenize', got one of ", bytes.size(),
         " bytes that is none");
  }
  if (const uint32_t version = load_u32(bytes, 8); version != kTokenVersion) {
    fail("wanted version ", kTokenVersion, ", got ", version);
  }
  const uint64_t size = load_u64(bytes, 64);
  if (size != bytes.size()) {
    fail("wanted ", size, " bytes, got ", bytes.size(), "; the file is cut short or was added to");
  }
  TokenShard shard;
  const uint32_t flags = load_u32(bytes, 36);
  shard.origin = {.vocabulary_hash = load_u64(bytes, 24),
                  .vocabulary_size = load_u32(bytes, 32),
                  .lower_case = (flags & kTokenLowerCase) != 0,
                  .strip_accents = (flags & kTokenStripAccents) != 0};
  shard.id_bytes = id_bytes_for(shard.origin.vocabulary_size);
  shard.number = load_u32(bytes, 16);
  shard.last = load_u32(bytes, 20) != 0;
  shard.hash = load_u64(bytes, 72);
  shard.hash_before = load_u64(bytes, 80);
  const uint64_t tokens = load_u64(bytes, 40), lines = load_u64(bytes, 48),
                 documents = load_u64(bytes, 56);
  const uint64_t body = size - kTokenHeaderBytes, width = static_cast<uint64_t>(shard.id_bytes);
  // Each count alone is held against the file's size first, so that no product overflows.
  if (load_u32(bytes, 12) != width || tokens == 0 || lines == 0 || documents == 0 ||
      tokens > body / width || lines > body / 8 || documents > body / 8 ||
      padded(tokens * width) + lines * 8 + documents * 8 != body) {
    fail("wanted ", tokens, " tokens of ", width, " bytes, ", lines, " lines and ", documents,
         " documents, at least one of each, in ", size, " bytes, got ", load_u32(bytes, 12),
         " bytes for a token or another size");
  }
  shard.tokens = static_cast<int64_t>(tokens);
  shard.lines = static_cast<int64_t>(lines);
  shard.documents = static_cast<int64_t>(documents);
  shard.ids = bytes.subspan(kTokenHeaderBytes, tokens * width);
  shard.line_ends = bytes.subspan(kTokenHeaderBytes + padded(tokens * width), lines * 8);
  shard.document_ends = bytes.subspan(size - documents * 8);
  if (!grow(shard.line_ends, tokens) || !grow(shard.document_ends, lines)) {
    fail("wanted lines and documents one behind the other, got others; the file is damaged");
  }
  return shard;
}

std::string token_shard_path(const std::string& path, uint32_t number) {
  return number == 0 ? path : str(path, ".", number);
}

TokenBuffer::TokenBuffer(const TokenOrigin& origin)
    : origin_(origin), id_bytes_(id_bytes_for(origin.vocabulary_size)) {}

void TokenBuffer::add_line(std::span<const int32_t> ids) {
  if (ids.empty()) return;
  for (const int32_t id : ids) append_little_endian(ids_, static_cast<uint32_t>(id), id_bytes_);
  line_ends_.push_back(static_cast<uint64_t>(tokens()));
}

void TokenBuffer::end_document() {
  const uint64_t lines = line_ends_.size();
  if (lines > (document_ends_.empty() ? 0 : document_ends_.back())) document_ends_.push_back(lines);
}

uint64_t TokenBuffer::bytes() const {
  return padded(ids_.size()) + 8 * (line_ends_.size() + document_ends_.size());
}

std::vector<uint8_t> TokenBuffer::finish(uint32_t number, bool last, uint64_t hash_before) {
  end_document();
  std::vector<uint8_t> file(kTokenMagic.begin(), kTokenMagic.end());
  file.reserve(kTokenHeaderBytes + bytes());
  append_little_endian(file, kTokenVersion, 4);
  append_little_endian(file, static_cast<uint64_t>(id_bytes_), 4);
  append_little_endian(file, number, 4);
  append_little_endian(file, last ? 1 : 0, 4);
  append_little_endian(file, origin_.vocabulary_hash, 8);
  append_little_endian(file, origin_.vocabulary_size, 4);
  append_little_endian(
      file,
      (origin_.lower_case ? kTokenLowerCase : 0) + (origin_.strip_accents ? kTokenStripAccents : 0),
      4);
  append_little_endian(file, static_cast<uint64_t>(tokens()), 8);
  append_little_endian(file, line_ends_.size(), 8);
  append_little_endian(file, document_ends_.size(), 8);
  append_little_endian(file, kTokenHeaderBytes + bytes(), 8);
  const size_t hash_at = file.size();
  append_little_endian(file, 0, 8);
  append_little_endian(file, hash_before, 8);
  file.resize(kTokenHeaderBytes);
  file.insert(file.end(), ids_.begin(), ids_.end());
  file.resize(kTokenHeaderBytes + padded(ids_.size()));
  for (const uint64_t end : line_ends_) append_little_endian(file, end, 8);
  for (const uint64_t end : document_ends_) append_little_endian(file, end, 8);
  const std::string_view body(reinterpret_cast<const char*>(file.data()) + kTokenHeaderBytes,
                              file.size() - kTokenHeaderBytes);
  const uint64_t hash = fnv1a(body);
  for (int i = 0; i < 8; ++i)
    file[hash_at + static_cast<size_t>(i)] = static_cast<uint8_t>(hash >> (8 * i));
  ids_.clear();
  line_ends_.clear();
  document_ends_.clear();
  return file;
}

}  // namespace lockstep
