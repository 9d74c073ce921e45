#include "lockstep/models/bert_names.h"

#include <string_view>
#include <utility>

namespace lockstep {
namespace {

using Pair = std::pair<std::string_view, std::string_view>;

// The beginning of a name: ours, theirs.
constexpr Pair kModel[] = {
    {"embeddings.norm.", "embeddings.LayerNorm."},
    {"pooler.", "pooler.dense."},
    {"predictions.dense.", "cls.predictions.transform.dense."},
    {"predictions.norm.", "cls.predictions.transform.LayerNorm."},
    {"predictions.", "cls.predictions."},
    {"seq_relationship.", "cls.seq_relationship."},
};

// What follows "encoder.N." here and "encoder.layer.N." there.
constexpr Pair kLayer[] = {
    {"attention.in_proj_", "attention.self."},
    {"attention.out_proj.", "attention.output.dense."},
    {"attention_norm.", "attention.output.LayerNorm."},
    {"intermediate.", "intermediate.dense."},
    {"output.", "output.dense."},
    {"output_norm.", "output.LayerNorm."},
};

template <size_t N>
std::string renamed(const std::string& name, const Pair (&pairs)[N]) {
  for (const auto& [ours, theirs] : pairs) {
    if (name.starts_with(ours)) return std::string(theirs) + name.substr(ours.size());
  }
  return name;
}

void replace_end(std::string& name, std::string_view end, std::string_view with) {
  if (name.ends_with(end)) name.replace(name.size() - end.size(), end.size(), with);
}

}  // namespace

std::string hugging_face_name(const std::string& ours) {
  constexpr std::string_view kBert = kBertPrefix, kEncoder = "encoder.";
  if (ours.starts_with(kBert)) {
    return std::string(kBert) + hugging_face_name(ours.substr(kBert.size()));
  }
  if (!ours.starts_with(kEncoder)) return renamed(ours, kModel);
  const size_t dot = ours.find('.', kEncoder.size());
  if (dot == std::string::npos) return ours;
  return "encoder.layer." + ours.substr(kEncoder.size(), dot + 1 - kEncoder.size()) +
         renamed(ours.substr(dot + 1), kLayer);
}

std::string usual_name(std::string theirs) {
  replace_end(theirs, "LayerNorm.gamma", "LayerNorm.weight");
  replace_end(theirs, "LayerNorm.beta", "LayerNorm.bias");
  for (const char* part : {"embeddings.", "encoder.", "pooler."}) {
    if (theirs.starts_with(part)) return kBertPrefix + theirs;
  }
  return theirs;
}

}  // namespace lockstep
