// Files in Hugging Face's format. The golden one is as transformers' save_pretrained wrote it
// (tests/golden/make_bert.py); what it computes is in bert_test.cc.
#include "lockstep/models/bert_exchange.h"

#include "lockstep/io/safetensors.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tests/models/small_bert.h"
#include "lockstep/tests/support/temp_dir.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <functional>

namespace lockstep {
namespace {

using testing::kSmallBert;
using testing::small_bert_config;
using testing::TempDir;
using testing::write_file;

bool same(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::memcmp(a.raw(), b.raw(), a.nbytes()) == 0;
}

TensorFile small_file() { return read_safetensors(bert_weights_path(kSmallBert)); }

/// The golden weights, changed, as a file.
std::string changed(const TempDir& dir, const std::function<void(std::vector<NamedTensor>&)>& fn) {
  std::vector<NamedTensor> tensors = small_file().tensors;
  fn(tensors);
  write_safetensors(dir / "changed", tensors);
  return dir / "changed";
}

void rename(std::vector<NamedTensor>& tensors, const std::string& from, const std::string& to) {
  for (NamedTensor& entry : tensors) {
    const size_t at = entry.name.find(from);
    if (at != std::string::npos) entry.name.replace(at, from.size(), to);
  }
}

Tensor& named(std::vector<NamedTensor>& tensors, const std::string& name) {
  const auto at = std::find_if(tensors.begin(), tensors.end(),
                               [&](const NamedTensor& e) { return e.name == name; });
  REQUIRE_MESSAGE(at != tensors.end(), name);
  return at->tensor;
}

/// A model with every value 0, to see what an import changes.
struct Fresh {
  Generator rng{1};
  BertForPreTraining model{small_bert_config(), rng};
  Fresh() {
    for (auto& [name, tensor] : model.state_dict()) ops::fill(tensor, 0);
  }
  bool equals_file() const {
    const TensorFile file = small_file();
    const auto mine = to_hugging_face(model.state_dict());
    return mine.size() == file.tensors.size() &&
           std::all_of(mine.begin(), mine.end(),
                       [&](const NamedTensor& e) { return same(e.tensor, file.at(e.name)); });
  }
  bool untouched() const {
    const auto state = model.state_dict();
    return std::all_of(state.begin(), state.end(), [](const NamedTensor& e) {
      const auto values = e.tensor.to_vector<float>();
      return std::all_of(values.begin(), values.end(), [](float v) { return v == 0; });
    });
  }
};

TEST_CASE("what is imported and exported again is the same to the bit, names and all") {
  const TempDir dir;
  Generator rng(0);
  ImportReport report;
  const auto model = load_bert<BertForPreTraining>(kSmallBert, rng, {}, &report);
  CHECK(report.loaded.size() == small_file().tensors.size());
  save_bert(dir / "a/b", *model);
  const TensorFile before = small_file(), after = read_safetensors(dir / "a/b/model.safetensors");
  CHECK(after.metadata == Metadata{{"format", "pt"}});
  CHECK(after.tensors.size() == before.tensors.size());
  for (const auto& [name, tensor] : before.tensors) {
    CAPTURE(name);
    CHECK(same(after.at(name), tensor));
  }
  CHECK(read_bert_config(dir / "a/b/config.json") == model->config());
  CHECK(testing::read_text(dir / "a/b/config.json").find("BertForPreTraining") !=
        std::string::npos);
}

TEST_CASE("names as files have had them") {
  const TempDir dir;
  Fresh old;
  CHECK(!old.equals_file());
  import_bert(old.model, changed(dir, [](auto& t) {
                rename(t, "LayerNorm.weight", "LayerNorm.gamma");
                rename(t, "LayerNorm.bias", "LayerNorm.beta");
                t.push_back({"bert.embeddings.position_ids", Tensor::zeros({1, 20}, DType::kI64)});
                const Tensor words = named(t, "bert.embeddings.word_embeddings.weight");
                t.push_back({"cls.predictions.decoder.weight", words});
                t.push_back({"cls.predictions.decoder.bias", named(t, "cls.predictions.bias")});
              }));
  CHECK(old.equals_file());

  Fresh alias;
  import_bert(alias.model, changed(dir, [](auto& t) {
                rename(t, "cls.predictions.bias", "cls.predictions.decoder.bias");
              }));
  CHECK(alias.equals_file());

  // A file of a BertModel, whose names lack the prefix, in one that has heads; and the reverse.
  Fresh bare;
  const std::string without = changed(dir, [](auto& t) {
    std::erase_if(t, [](const NamedTensor& e) { return e.name.starts_with("cls."); });
    rename(t, "bert.", "");
  });
  const ImportReport report = import_bert(bare.model, without, {.strict = false});
  CHECK(report.missing.size() == 7);
  CHECK(report.unexpected.empty());
  Generator rng(1);
  BertModel model(small_bert_config(), rng);
  CHECK(import_bert(model, without).missing.empty());
  CHECK(import_bert(model, bert_weights_path(kSmallBert), {.strict = false}).unexpected.size() ==
        7);
  for (const auto& [name, tensor] : to_hugging_face(model.state_dict())) {
    CAPTURE(name);
    CHECK(same(tensor, small_file().at("bert." + name)));
  }
}

TEST_CASE("strict: missing, unexpected and other shapes are told by their names in the file") {
  const TempDir dir;
  const std::string path = changed(dir, [](auto& t) {
    std::erase_if(t, [](const NamedTensor& e) {
      return e.name == "bert.encoder.layer.1.attention.self.key.bias";
    });
    named(t, "cls.seq_relationship.weight") = Tensor::zeros({3, 32}, DType::kF32);
    t.push_back({"more", Tensor::zeros({2}, DType::kF32)});
  });
  Fresh fresh;
  for (const char* words :
       {"changed: import_bert: ", "1 missing (bert.encoder.layer.1.attention.self.key.bias)",
        "1 unexpected (more)", "cls.seq_relationship.weight: wanted f32 [2, 32], got f32 [3, 32]"})
    CHECK_THROWS_WITH_AS(import_bert(fresh.model, path), doctest::Contains(words), ArgumentError);
  CHECK(fresh.untouched());

  const ImportReport report = import_bert(fresh.model, path, {.strict = false});
  CHECK(report.missing.size() == 1);
  CHECK(report.unexpected == std::vector<std::string>{"more"});
  CHECK(report.other_shape.size() == 1);
  CHECK(report.loaded.size() + 2 == small_file().tensors.size());
  CHECK(!fresh.untouched());
}

TEST_CASE(
    "other vocabularies and lengths, an untied decoder and doubled names are refused always") {
  const TempDir dir;
  const auto refused = [&](const std::string& path, const char* words) {
    for (bool strict : {true, false}) {
      Fresh fresh;
      CHECK_THROWS_WITH_AS(import_bert(fresh.model, path, {.strict = strict}),
                           doctest::Contains(words), ArgumentError);
      CHECK(fresh.untouched());
    }
  };
  const std::string words = "bert.embeddings.word_embeddings.weight";
  const std::string places = "bert.embeddings.position_embeddings.weight";
  refused(changed(dir,
                  [&](auto& t) {
                    named(t, words) = Tensor::zeros({61, 32}, DType::kF32);
                  }),
          "wanted [60, 32], got [61, 32]; the file's config.json says which vocab_size it has");
  refused(changed(dir,
                  [&](auto& t) {
                    named(t, places) = Tensor::zeros({512, 32}, DType::kF32);
                  }),
          "max_position_embeddings");
  refused(
      changed(
          dir,
          [&](auto& t) {
            t.push_back({"cls.predictions.decoder.weight", Tensor::zeros({60, 32}, DType::kF32)});
          }),
      "cls.predictions.decoder.weight is not the word embedding");
  refused(changed(dir,
                  [&](auto& t) {
                    t.push_back({"embeddings.word_embeddings.weight", named(t, words)});
                  }),
          "two tensors are bert.embeddings.word_embeddings.weight");
}

TEST_CASE("f16 and f64 files are converted") {
  const TempDir dir;
  for (DType dtype : {DType::kF16, DType::kF64}) {
    CAPTURE(name_of(dtype));
    const std::string path = changed(dir, [&](auto& t) {
      for (NamedTensor& entry : t) entry.tensor = ops::cast(entry.tensor, dtype);
    });
    Fresh fresh;
    import_bert(fresh.model, path);
    CHECK(fresh.equals_file() == (dtype == DType::kF64));
    const TensorFile file = small_file();
    for (const auto& [name, tensor] : to_hugging_face(fresh.model.state_dict()))
      CHECK(same(tensor, ops::cast(ops::cast(file.at(name), dtype), DType::kF32)));
  }
}

TEST_CASE(
    "a folder whose config asks for more than its weights is refused before memory is taken") {
  const TempDir dir;
  Generator rng(1);
  const auto refused = [&](const std::function<void(BertConfig&)>& change, const char* words) {
    BertConfig config = small_bert_config();
    change(config);
    write_bert_config(bert_config_path(dir.path()), config, "BertModel");
    CHECK_THROWS_WITH_AS(load_bert<BertForPreTraining>(dir.path(), rng), doctest::Contains(words),
                         ArgumentError);
  };
  write_safetensors(bert_weights_path(dir.path()), small_file().tensors);
  refused([](BertConfig& c) { c.vocab_size = 9'000'000; }, "wanted [9000000, 32]");
  refused([](BertConfig& c) { c.max_position_embeddings = 9'000'000; }, "max_position_embeddings");
  refused([](BertConfig& c) { c.num_hidden_layers = 4000; },
          "wanted 4000 layers as config.json's num_hidden_layers says, got 2");
  refused([](BertConfig& c) { c.intermediate_size = 100'000; }, "intermediate_size");
  refused([](BertConfig& c) { c.type_vocab_size = 9'000'000; },
          "parameters of an encoder as config.json says");
  write_safetensors(bert_weights_path(dir.path()), std::vector<NamedTensor>{});
  refused([](BertConfig&) {}, "got no bert.embeddings.word_embeddings.weight");
  std::filesystem::remove(bert_weights_path(dir.path()));
  CHECK_THROWS_AS(load_bert<BertForPreTraining>(dir.path(), rng), IoError);
}

TEST_CASE("a masked language model alone goes without a pooler") {
  const TempDir dir;
  Generator rng(1);
  const BertForPreTraining model(small_bert_config(), rng, /*next_sentence=*/false);
  CHECK(std::string(model.architecture()) == "BertForMaskedLM");
  export_bert(dir / "out", model.state_dict());
  const TensorFile file = read_safetensors(dir / "out");
  CHECK(file.find("bert.pooler.dense.weight") == nullptr);
  CHECK(file.find("cls.predictions.decoder.weight") == nullptr);
  CHECK(file.find("cls.predictions.transform.LayerNorm.weight") != nullptr);
}

}  // namespace
}  // namespace lockstep
