// Some of a data set's examples.
#pragma once

#include "lockstep/data/text/text_dataset.h"

#include <memory>
#include <utility>
#include <vector>

namespace lockstep::train_bert {

class DatasetPart final : public TextDataset {
 public:
  DatasetPart(std::shared_ptr<const TextDataset> whole, std::vector<int64_t> indices)
      : whole_(std::move(whole)), indices_(std::move(indices)) {}

  int64_t size() const override { return static_cast<int64_t>(indices_.size()); }
  void get(int64_t epoch, int64_t index, TextExample& example) const override {
    whole_->get(epoch, indices_.at(static_cast<size_t>(index)), example);
  }
  int64_t max_seq_length() const override { return whole_->max_seq_length(); }
  int32_t pad_id() const override { return whole_->pad_id(); }
  int64_t classes() const override { return whole_->classes(); }
  std::vector<std::string> class_names() const override { return whole_->class_names(); }

 private:
  std::shared_ptr<const TextDataset> whole_;
  std::vector<int64_t> indices_;
};

}  // namespace lockstep::train_bert
