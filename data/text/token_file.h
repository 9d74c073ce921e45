// A text as token ids, in shards: corpus.tokens, and where that is not the last one
// corpus.tokens.1, corpus.tokens.2, ... A shard is meant to be mapped; integers are little-endian:
//
//   offset  bytes
//        0      8  "LSTOKS\r\n"
//        8      4  version, 1
//       12      4  bytes of a token id: 2 where the vocabulary has at most 65,536 tokens, else 4
//       16      4  number of the shard, from 0
//       20      4  1 in the last shard, else 0
//       24      8  the vocabulary's hash (Vocabulary::hash)
//       32      4  the vocabulary's size
//       36      4  1: lower case, plus 2: accents stripped
//       40      8  tokens T, at least 1
//       48      8  lines L, at least 1
//       56      8  documents D, at least 1
//       64      8  bytes of the file
//       72      8  FNV-1a of all that stands behind the header
//       80      8  the same of the shard before; 0 in the first
//       88     16  0
//      104         T token ids; up to 7 bytes 0, so that what follows lies at a multiple of 8
//                  L times 8 bytes: where the line ends, in tokens
//                  D times 8 bytes: where the document ends, in lines
//
// Lines and documents are not empty. A document does not go on in the next shard.
#pragma once

#include "lockstep/data/text/word_piece.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

/// How a text was tokenised: what has to agree with whoever reads its ids.
struct TokenOrigin {
  uint64_t vocabulary_hash = 0;
  uint32_t vocabulary_size = 0;
  bool lower_case = true, strip_accents = true;
  bool operator==(const TokenOrigin&) const = default;
};

TokenOrigin origin_of(const WordPiece& tokenizer);

/// A shard in memory; `bytes` outlive it.
struct TokenShard {
  TokenOrigin origin;
  uint32_t number = 0;
  bool last = false;
  uint64_t hash = 0, hash_before = 0;
  int64_t tokens = 0, lines = 0, documents = 0;
  int id_bytes = 2;
  std::span<const uint8_t> ids, line_ends, document_ends;

  /// Token `i`; may be no token of the vocabulary when the file was tampered with.
  uint32_t id(int64_t i) const;
  int64_t line_end(int64_t line) const;          // in tokens
  int64_t document_end(int64_t document) const;  // in lines
};

/// Checks the header, all sizes, and where lines and documents end against `bytes`; IoError names
/// `name`. The ids are looked at when they are read, and the hash only ties shards together:
/// checking them here would mean reading the whole file.
TokenShard parse_tokens(std::span<const uint8_t> bytes, const std::string& name);

/// Whether the bytes begin as a shard does.
bool is_token_file(std::span<const uint8_t> bytes);

/// The file of shard `number` of the corpus at `path`.
std::string token_shard_path(const std::string& path, uint32_t number);

/// A shard being filled, in memory.
class TokenBuffer {
 public:
  explicit TokenBuffer(const TokenOrigin& origin);

  /// A line of the current document; nothing happens when it is empty.
  void add_line(std::span<const int32_t> ids);
  /// The lines that follow are another document's.
  void end_document();
  /// Bytes that it takes so far, without the header.
  uint64_t bytes() const;
  bool empty() const { return line_ends_.empty(); }
  int64_t lines() const { return static_cast<int64_t>(line_ends_.size()); }
  int64_t tokens() const { return static_cast<int64_t>(ids_.size()) / id_bytes_; }
  int64_t documents() const { return static_cast<int64_t>(document_ends_.size()); }

  /// The whole file, and an empty buffer again.
  std::vector<uint8_t> finish(uint32_t number, bool last, uint64_t hash_before);

 private:
  TokenOrigin origin_;
  int id_bytes_;
  std::vector<uint8_t> ids_;
  std::vector<uint64_t> line_ends_, document_ends_;
};

}  // namespace lockstep
