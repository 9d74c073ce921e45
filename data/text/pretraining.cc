#include "lockstep/data/text/pretraining.h"

#include "lockstep/base/error.h"
#include "lockstep/data/text/draws.h"

#include <algorithm>
#include <utility>

namespace lockstep {
namespace {

constexpr int64_t kLeastLength = 8;

/// What pack_segments gives, as far as it lies in the stretch that is used.
std::vector<Segment> used_segments(const Corpus& corpus, Packing packing, int64_t budget,
                                   const PretrainingOptions& options) {
  std::vector<Segment> segments = pack_segments(corpus, packing, budget);
  std::erase_if(segments, [&](const Segment& s) {
    return s.begin < options.begin || (options.end >= 0 && s.end > options.end);
  });
  return segments;
}

class MaskedLanguage final : public TextDataset {
 public:
  MaskedLanguage(std::shared_ptr<const Corpus> corpus, const PretrainingOptions& options)
      : corpus_(std::move(corpus)),
        options_(options),
        segments_(used_segments(*corpus_, options.packing, options.max_seq_length - 2, options)) {}

  int64_t size() const override { return static_cast<int64_t>(segments_.size()); }
  int64_t max_seq_length() const override { return options_.max_seq_length; }
  int32_t pad_id() const override { return corpus_->vocabulary().pad(); }

  void get(int64_t epoch, int64_t index, TextExample& example) const override {
    const Vocabulary& vocabulary = corpus_->vocabulary();
    const auto [begin, end] = segments_.at(static_cast<size_t>(index));
    example.clear();
    example.ids.push_back(vocabulary.classify());
    corpus_->read(begin, end, example.ids);
    example.ids.push_back(vocabulary.separator());
    mask_tokens(vocabulary, options_.masking, options_.seed, epoch, index, example);
  }

 private:
  std::shared_ptr<const Corpus> corpus_;
  PretrainingOptions options_;
  std::vector<Segment> segments_;
};

class SentencePairs final : public TextDataset {
 public:
  SentencePairs(std::shared_ptr<const Corpus> corpus, const PretrainingOptions& options)
      : corpus_(std::move(corpus)),
        options_(options),
        segments_(
            used_segments(*corpus_, Packing::kDocuments, options.max_seq_length - 3, options)) {
    std::erase_if(segments_, [](const Segment& s) { return s.end - s.begin < 2; });
    check(segments_.size() >= 2,
          "pretraining_dataset: next_sentence wants at least two segments of "
          "two tokens, got ",
          segments_.size(), "; give more text, or train without it");
    for (int64_t d = 0; d <= corpus_->documents(); ++d) {
      document_begins_.push_back(d == corpus_->documents()
                                     ? corpus_->tokens()
                                     : corpus_->line_begin(corpus_->document_begin(d)));
    }
  }

  int64_t size() const override { return static_cast<int64_t>(segments_.size()); }
  int64_t max_seq_length() const override { return options_.max_seq_length; }
  int32_t pad_id() const override { return corpus_->vocabulary().pad(); }
  int64_t classes() const override { return 2; }
  std::vector<std::string> class_names() const override { return {"is next", "not next"}; }

  void get(int64_t epoch, int64_t index, TextExample& example) const override {
    const Vocabulary& vocabulary = corpus_->vocabulary();
    Draws draws(options_.seed, RandomPurpose::kPair, epoch, index);
    const Segment whole = segments_.at(static_cast<size_t>(index));
    const int64_t cut = cut_inside(whole, draws);
    const bool is_next = draws.below(2) == 0;
    Segment second{cut, whole.end};
    if (!is_next) second = from_elsewhere(index, whole.end - cut, draws);
    example.clear();
    example.label = is_next ? 0 : 1;
    example.ids.push_back(vocabulary.classify());
    corpus_->read(whole.begin, cut, example.ids);
    example.ids.push_back(vocabulary.separator());
    example.types.assign(example.ids.size(), 0);
    corpus_->read(second.begin, second.end, example.ids);
    example.ids.push_back(vocabulary.separator());
    example.types.resize(example.ids.size(), 1);
    mask_tokens(vocabulary, options_.masking, options_.seed, epoch, index, example);
  }

 private:
  /// The beginning of a line inside the segment; where there is none, any place but its ends.
  int64_t cut_inside(const Segment& s, Draws& draws) const {
    const int64_t first = corpus_->line_of(s.begin) + 1, last = corpus_->line_of(s.end - 1);
    if (first <= last) return corpus_->line_begin(first + draws.below(last - first + 1));
    return s.begin + 1 + draws.below(s.end - s.begin - 1);
  }

  size_t document_of(int64_t token) const {
    const auto after = std::upper_bound(document_begins_.begin(), document_begins_.end(), token);
    return static_cast<size_t>(after - document_begins_.begin()) - 1;
  }

  /// `length` tokens from a line's beginning in another segment on; less where that document is
  /// shorter. As long as the true ones, so that no length tells which of the two it is.
  Segment from_elsewhere(int64_t index, int64_t length, Draws& draws) const {
    constexpr int kTries = 10;  // to meet another document; there may be none
    const size_t own = document_of(segments_[static_cast<size_t>(index)].begin);
    size_t document = own;
    Segment other;
    for (int i = 0; i < kTries && document == own; ++i) {
      const int64_t chosen = draws.below(size() - 1);
      other = segments_[static_cast<size_t>(chosen + (chosen >= index))];
      document = document_of(other.begin);
    }
    const int64_t first = corpus_->line_of(other.begin), last = corpus_->line_of(other.end - 1);
    int64_t begin = corpus_->line_begin(first + draws.below(last - first + 1));
    // Nothing of what is not used: it may be held out.
    const int64_t low = std::max(document_begins_[document], options_.begin);
    const int64_t end = document_begins_[document + 1];
    const int64_t high = options_.end < 0 ? end : std::min(end, options_.end);
    begin = std::max({begin, other.begin, low});
    if (document == own) return {begin, std::min(begin + length, other.end)};
    begin = std::max(low, std::min(begin, high - length));
    return {begin, std::min(begin + length, high)};
  }

  std::shared_ptr<const Corpus> corpus_;
  PretrainingOptions options_;
  std::vector<Segment> segments_;
  std::vector<int64_t> document_begins_;  // in tokens, and the end
};

}  // namespace

std::shared_ptr<const TextDataset> pretraining_dataset(std::shared_ptr<const Corpus> corpus,
                                                       const PretrainingOptions& options) {
  check(options.max_seq_length >= kLeastLength,
        "pretraining_dataset: wanted sequences of at least ", kLeastLength, " tokens, got ",
        options.max_seq_length);
  check_masking(corpus->vocabulary(), options.masking);
  if (options.next_sentence) return std::make_shared<SentencePairs>(std::move(corpus), options);
  return std::make_shared<MaskedLanguage>(std::move(corpus), options);
}

}  // namespace lockstep
