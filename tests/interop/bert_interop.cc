// This project's side of tests/interop/bert_interop.py:
//
//   bert_interop embed FOLDER IN OUT     sentence vectors of the model in FOLDER
//   bert_interop make KIND FOLDER        random weights of a small model, saved: "pretraining",
//                                        "masked_lm", "encoder" or "classifier"
//   bert_interop run KIND FOLDER IN OUT  what the model in FOLDER gives
//
// IN holds "ids" and "types" i64 and "padding" u8 [B, S], and for the first two kinds
// "masked_positions" i64 [M]. OUT gets "embeddings", or "logits", "next_logits", "sequence",
// "pooled", as the kind has them.
#include "lockstep/base/error.h"
#include "lockstep/io/safetensors.h"
#include "lockstep/models/bert.h"
#include "lockstep/models/bert_exchange.h"
#include "lockstep/models/sentence_embedding.h"
#include "lockstep/tensor/ops/random.h"

#include <cstdio>
#include <string>
#include <vector>

namespace lockstep {
namespace {

BertInput input_of(const TensorFile& in) {
  return {.ids = in.at("ids"), .types = in.at("types"), .padding = in.at("padding")};
}

void embed(const std::string& folder, const std::string& in_path, const std::string& out_path) {
  Generator rng(0);
  const auto model = load_bert<BertModel>(folder, rng);
  model->eval();
  const NoGrad no_grad;
  const BertInput input = input_of(read_safetensors(in_path));
  const Variable vectors = sentence_embeddings((*model)(input).sequence, input.padding);
  write_safetensors(out_path, std::vector<NamedTensor>{{"embeddings", vectors.data()}});
}

template <class Model, class... Options>
void make(const std::string& folder, Options... options) {
  const BertConfig config{.vocab_size = 99,
                          .hidden_size = 48,
                          .num_hidden_layers = 3,
                          .num_attention_heads = 4,
                          .intermediate_size = 80,
                          .max_position_embeddings = 40,
                          .num_labels = 3};
  Generator rng(7);
  const Model model(config, rng, options...);
  // Fresh biases and normalisations would hide a mix-up among them.
  for (auto& [name, tensor] : model.state_dict()) {
    const bool scale = name.ends_with("norm.weight");
    if (tensor.ndim() == 1) ops::normal(tensor, scale ? 1 : 0, 0.2, rng);
    if (tensor.ndim() == 2) ops::normal(tensor, 0, 0.15, rng);
  }
  save_bert(folder, model);
}

std::vector<NamedTensor> run(const std::string& kind, const std::string& folder,
                             const TensorFile& in) {
  Generator rng(0);
  const NoGrad no_grad;
  if (kind == "encoder") {
    const auto model = load_bert<BertModel>(folder, rng);
    model->eval();
    const auto out = (*model)(input_of(in));
    return {{"sequence", out.sequence.data()}, {"pooled", out.pooled.data()}};
  }
  if (kind == "classifier") {
    const auto model = load_bert<BertForSequenceClassification>(folder, rng);
    model->eval();
    return {{"logits", (*model)(input_of(in)).data()}};
  }
  const bool next_sentence = kind == "pretraining";
  const BertConfig config = read_bert_config(bert_config_path(folder));
  BertForPreTraining model(config, rng, next_sentence);
  import_bert(model, bert_weights_path(folder));
  model.eval();
  const auto out = model(input_of(in), in.at("masked_positions"));
  std::vector<NamedTensor> list{{"logits", out.prediction_logits.data()}};
  if (next_sentence) list.push_back({"next_logits", out.seq_relationship_logits.data()});
  return list;
}

void make(const std::string& kind, const std::string& folder) {
  if (kind == "encoder") {
    make<BertModel>(folder);
  } else if (kind == "classifier") {
    make<BertForSequenceClassification>(folder);
  } else {
    make<BertForPreTraining>(folder, kind == "pretraining");
  }
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  const std::vector<std::string> a(argv + 1, argv + argc);
  try {
    if (a.size() == 4 && a[0] == "embed") {
      lockstep::embed(a[1], a[2], a[3]);
    } else if (a.size() == 3 && a[0] == "make") {
      lockstep::make(a[1], a[2]);
    } else if (a.size() == 5 && a[0] == "run") {
      lockstep::write_safetensors(a[4],
                                  lockstep::run(a[1], a[2], lockstep::read_safetensors(a[3])));
    } else {
      std::fprintf(
          stderr,
          "bert_interop: embed FOLDER IN OUT | make KIND FOLDER | run KIND FOLDER IN OUT\n");
      return 2;
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bert_interop: %s\n", error.what());
    return 1;
  }
  return 0;
}
