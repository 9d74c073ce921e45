// Texts with a class each, for fine-tuning, from TSV or JSONL files.
#pragma once

#include "lockstep/data/text/text_dataset.h"
#include "lockstep/data/text/word_piece.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

struct LabelledLine {
  std::string text_a;
  std::optional<std::string> text_b;  // of a pair
  std::string label;
  int64_t line = 0;  // in the file, from 1
};

/// Reads FILE.jsonl (or .json): in each line {"text": ..., "label": ...} or {"text_a": ...,
/// "text_b": ..., "label": ...}, labels as texts or integers. Any other file is TSV: text and
/// label, or two texts and label, separated by tabs, without quotes. A first line of column names
/// (text or sentence, text_a or sentence1, text_b or sentence2, label, in any order; other columns
/// are passed over) is recognised. Empty lines are passed over. Throws IoError, with the line.
std::vector<LabelledLine> read_labelled_text(const std::string& path);

struct LabelledTextOptions {
  std::string path;
  int64_t max_seq_length = 128;
  /// The classes in order; empty: those in the file, integers by value, else by their bytes. Give
  /// the training set's here when the test set is read.
  std::vector<std::string> class_names = {};
};

/// Examples "[CLS] text [SEP]" or "[CLS] A [SEP] B [SEP]" with a class. What is too long is cut at
/// its end; of a pair, the longer one first. Labels that are integers from 0 on in the file are
/// the classes' numbers themselves, and classes without an example keep theirs. Throws IoError
/// with the line for a label that class_names has not, and when the file has none.
std::shared_ptr<const TextDataset> labelled_text(const LabelledTextOptions& options,
                                                 const WordPiece& tokenizer);

/// The same of texts in memory without labels, for prediction: `text_b` is empty, or has one for
/// each of `text_a`. "[MASK]" and other special tokens in the texts are taken as such.
std::vector<TextExample> text_examples(const std::vector<std::string>& text_a,
                                       const std::vector<std::string>& text_b,
                                       const WordPiece& tokenizer, int64_t max_seq_length);

}  // namespace lockstep
