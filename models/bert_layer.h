// One layer of BERT's encoder. Private to models/.
#pragma once

#include "lockstep/models/bert_config.h"
#include "lockstep/nn/dropout.h"
#include "lockstep/nn/linear.h"
#include "lockstep/nn/multihead_attention.h"
#include "lockstep/nn/norm.h"

namespace lockstep {

/// Self-attention and a feed-forward part (linear, GELU, linear), each followed by dropout, the sum
/// with what went in, and a normalisation of the sum ("post-LN").
class BertLayer final : public Module {
 public:
  BertLayer(const BertConfig& config, Generator& rng);
  /// x [B, S, H]; padding u8 [B, S], not 0 where nobody may look; undefined: nowhere.
  Variable forward(const Variable& x, const Tensor& padding);

 private:
  MultiheadAttention attention_;
  LayerNorm attention_norm_;
  Linear intermediate_, output_;
  LayerNorm output_norm_;
  Dropout dropout_;
};

}  // namespace lockstep
