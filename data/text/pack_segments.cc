#include "lockstep/base/error.h"
#include "lockstep/data/text/pretraining.h"

#include <algorithm>

namespace lockstep {
namespace {

class Packer {
 public:
  Packer(int64_t budget, std::vector<Segment>& out) : budget_(budget), out_(out) {}

  /// A line behind the last one.
  void add(int64_t begin, int64_t end) {
    if (end - segment_.begin > budget_ || segment_.end != begin) {
      close();
      segment_ = {begin, begin};
    }
    for (; end - segment_.begin > budget_; segment_.begin += budget_) {
      out_.push_back({segment_.begin, segment_.begin + budget_});
    }
    segment_.end = end;
  }

  void close() {
    if (segment_.end > segment_.begin) out_.push_back(segment_);
    segment_ = {segment_.end, segment_.end};
  }

 private:
  int64_t budget_;
  std::vector<Segment>& out_;
  Segment segment_;
};

}  // namespace

std::vector<Segment> pack_segments(const Corpus& corpus, Packing packing, int64_t budget) {
  check(budget >= 1, "pack_segments: wanted room for at least one token, got ", budget);
  std::vector<Segment> segments;
  if (packing == Packing::kStream) {
    for (int64_t begin = 0; begin < corpus.tokens(); begin += budget) {
      segments.push_back({begin, std::min(begin + budget, corpus.tokens())});
    }
    return segments;
  }
  Packer packer(budget, segments);
  for (int64_t document = 0; document < corpus.documents(); ++document) {
    const int64_t first = corpus.document_begin(document);
    const int64_t last = corpus.document_begin(document + 1);
    int64_t begin = corpus.line_begin(first);
    for (int64_t line = first; line < last; ++line) {
      const int64_t end = corpus.line_begin(line + 1);
      if (packing == Packing::kLines) {
        segments.push_back({begin, std::min(end, begin + budget)});
      } else {
        packer.add(begin, end);
      }
      begin = end;
    }
    if (packing == Packing::kDocuments) packer.close();
  }
  if (packing != Packing::kLines) packer.close();
  return segments;
}

}  // namespace lockstep
