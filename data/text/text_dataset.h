// What a data set of token sequences is to the sampler and the loader.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

/// One sequence, [CLS] ... [SEP] with its special tokens.
struct TextExample {
  std::vector<int32_t> ids;
  std::vector<int32_t> types;             // 0 in the first sentence, 1 in the second; empty: all 0
  std::vector<int32_t> masked_positions;  // in `ids`, ascending
  std::vector<int32_t> masked_labels;     // the token that stood there
  int64_t label = -1;                     // a class, or 0: B follows A, 1: it does not; -1: none

  void clear() {
    ids.clear();
    types.clear();
    masked_positions.clear();
    masked_labels.clear();
    label = -1;
  }
};

/// A map from an epoch and an index to an example. Immutable, so safe from any thread.
class TextDataset {
 public:
  virtual ~TextDataset() = default;

  virtual int64_t size() const = 0;
  /// Writes example `index`, 0 <= index < size(), as epoch `epoch` sees it: what is drawn depends
  /// on (seed, epoch, index) alone, so neither on ranks nor on what was read before.
  virtual void get(int64_t epoch, int64_t index, TextExample& example) const = 0;
  /// Tokens of an example at most.
  virtual int64_t max_seq_length() const = 0;
  virtual int32_t pad_id() const = 0;
  /// 0: examples have no label.
  virtual int64_t classes() const { return 0; }
  /// A name for each class; empty when the data set has none.
  virtual std::vector<std::string> class_names() const { return {}; }
};

}  // namespace lockstep
