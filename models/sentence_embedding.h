// Vectors of whole sequences from the output of an encoder; as embeddings of sentences as
// sentence-transformers makes them (Reimers and Gurevych, "Sentence-BERT", EMNLP 2019).
#pragma once

#include "lockstep/autograd/variable.h"

namespace lockstep {

/// [B, H] from `sequence` [B, S, H]: the mean of each sequence over its tokens that are not padding
/// (u8 [B, S], not 0 where padding; undefined: none is). A sequence that is all padding gives
/// zeros. f32, f64, bf16; ArgumentError for shapes that do not fit.
Variable mean_of_tokens(const Variable& sequence, const Tensor& padding);

/// The same divided by its Euclidean norm, but no less than 1e-12.
Variable sentence_embeddings(const Variable& sequence, const Tensor& padding);

}  // namespace lockstep
