// The names of BERT's tensors here and at Hugging Face. Private to models/.
#pragma once

#include <string>

namespace lockstep {

/// The encoder of a larger model; a BertModel's own names begin without it.
inline constexpr const char* kBertPrefix = "bert.";

/// Hugging Face's name for one of ours: "encoder.0.attention_norm.bias" is
/// "encoder.layer.0.attention.output.LayerNorm.bias". Those of the packed projection become
/// "...attention.self.weight", to be completed by query, key and value.
std::string hugging_face_name(const std::string& ours);

/// Names as files have had them made alike: a leading "bert." for the encoder's, "weight" and
/// "bias" of normalisations for "gamma" and "beta".
std::string usual_name(std::string theirs);

}  // namespace lockstep
