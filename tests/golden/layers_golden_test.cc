// Functions of one number, indexing, layer and group normalisation, losses and attention against
// PyTorch: results and gradients, of attention also the layer's.
#include "lockstep/autograd/ops/activation.h"
#include "lockstep/autograd/ops/index.h"
#include "lockstep/autograd/ops/loss.h"
#include "lockstep/autograd/ops/norm.h"
#include "lockstep/autograd/ops/select.h"
#include "lockstep/nn/multihead_attention.h"
#include "lockstep/tests/support/golden.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

using testing::check_golden;
using Inputs = std::vector<Variable>;
using Cases = std::vector<std::pair<std::string, testing::Function>>;

TensorFile golden(const std::string& family) {
  return read_safetensors("tests/golden/" + family + ".safetensors");
}

/// Each case agrees, and no case of the file was forgotten.
void check_family(const TensorFile& file, const Cases& cases, double tolerance = 1e-5) {
  size_t results = 0;
  for (const auto& [name, tensor] : file.tensors) results += name.ends_with(".result");
  CHECK(results == cases.size());
  for (const auto& [name, fn] : cases) CHECK(check_golden(file, name, fn, tolerance) == "");
}

TEST_CASE("golden: functions of one number") {
  check_family(golden("unary"),
               {{"gelu", [](const Inputs& x) { return gelu(x[0]); }},
                {"gelu_tanh", [](const Inputs& x) { return gelu(x[0], GeluApproximation::kTanh); }},
                {"sigmoid", [](const Inputs& x) { return sigmoid(x[0]); }},
                {"tanh", [](const Inputs& x) { return tanh(x[0]); }},
                {"silu", [](const Inputs& x) { return silu(x[0]); }},
                {"exp", [](const Inputs& x) { return exp(x[0]); }},
                {"log", [](const Inputs& x) { return log(x[0]); }},
                {"sqrt", [](const Inputs& x) { return sqrt(x[0]); }}});
}

TEST_CASE("golden: gather, scatter_add, embedding, where") {
  const TensorFile file = golden("index");
  const auto index = [&](const std::string& name) { return file.at(name + ".index"); };
  check_family(
      file,
      {{"gather_first", [&](const Inputs& x) { return gather(x[0], 0, index("gather_first")); }},
       {"gather_last", [&](const Inputs& x) { return gather(x[0], -1, index("gather_last")); }},
       {"scatter_add_first",
        [&](const Inputs& x) { return scatter_add(x[0], 0, index("scatter_add_first"), x[1]); }},
       {"scatter_add_middle",
        [&](const Inputs& x) { return scatter_add(x[0], 1, index("scatter_add_middle"), x[1]); }},
       {"embedding", [&](const Inputs& x) { return embedding(x[0], index("embedding")); }},
       {"embedding_padding",
        [&](const Inputs& x) {
          return embedding(x[0], index("embedding_padding"), {.padding_idx = 2});
        }},
       {"where",
        [&](const Inputs& x) { return where(gt(Variable(index("where")), 0.0), x[0], x[1]); }}});
}

TEST_CASE("golden: layer_norm and group_norm") {
  check_family(
      golden("sample_norm"),
      {{"layer", [](const Inputs& x) { return layer_norm(x[0], {33}, x[1], x[2]); }},
       {"layer_plain", [](const Inputs& x) { return layer_norm(x[0], {33}, {}, {}, 0.1); }},
       {"layer_two",
        [](const Inputs& x) {
          return layer_norm(x[0], {4, 6}, x[1], x[2]);
        }},
       {"group", [](const Inputs& x) { return group_norm(x[0], 3, x[1], x[2]); }},
       {"group_rows", [](const Inputs& x) { return group_norm(x[0], 2, x[1], x[2]); }},
       {"instance", [](const Inputs& x) { return group_norm(x[0], 6); }},
       {"added",
        [](const Inputs& x) {
          return dropout_add_layer_norm(x[0], x[1], {33}, x[2], x[3], {.x_bias = x[4]});
        }},
       {"added_plain",
        [](const Inputs& x) {
          return dropout_add_layer_norm(x[0], x[1], {6}, {}, {}, {.eps = 0.1});
        }},
       {"added_two", [](const Inputs& x) {
          return dropout_add_layer_norm(x[0], x[1], {4, 6}, x[2], x[3]);
        }}});
}

TEST_CASE("golden: losses") {
  const TensorFile file = golden("losses");
  Cases cases;
  for (const Reduction reduction : {Reduction::kMean, Reduction::kSum}) {
    const std::string end = reduction == Reduction::kMean ? "mean" : "sum";
    const auto extra = [&file, end](const std::string& name, const std::string& what) {
      return file.at(name + end + "." + what);
    };
    cases.emplace_back("mse_" + end,
                       [=](const Inputs& x) { return mse_loss(x[0], x[1], reduction); });
    cases.emplace_back("bce_" + end, [=](const Inputs& x) {
      return bce_with_logits_loss(x[0], extra("bce_", "targets"), {.reduction = reduction});
    });
    cases.emplace_back("bce_weighted_" + end, [=](const Inputs& x) {
      return bce_with_logits_loss(
          x[0], extra("bce_weighted_", "targets"),
          {.pos_weight = extra("bce_weighted_", "pos_weight"), .reduction = reduction});
    });
    cases.emplace_back("nll_" + end, [=](const Inputs& x) {
      return nll_loss(x[0], extra("nll_", "targets"), {.ignore_index = 5, .reduction = reduction});
    });
    cases.emplace_back("cosine_" + end, [=](const Inputs& x) {
      return cosine_embedding_loss(x[0], x[1], extra("cosine_", "labels"),
                                   {.margin = 0.1, .reduction = reduction});
    });
  }
  check_family(file, cases);
}

/// The layer with the inputs from number `first` on for its parameters.
struct Attention {
  Generator rng{1};
  MultiheadAttention layer;
  Attention(const Inputs& x, size_t first)
      : layer({.embed_dim = 12, .num_heads = 3, .bias = x.size() - first == 4}, rng) {
    const bool bias = x.size() - first == 4;
    layer.in_proj_weight = x[first];
    if (bias) layer.in_proj_bias = x[first + 1];
    layer.out_proj.weight = x[first + (bias ? 2 : 1)];
    if (bias) layer.out_proj.bias = x[first + 3];
  }
};

TEST_CASE("golden: MultiheadAttention and scaled_dot_product_attention") {
  const TensorFile file = golden("attention");
  const auto own = [&](const std::string& name, bool causal) {
    return std::pair<std::string, testing::Function>(name, [&file, name, causal](const Inputs& x) {
      const Tensor* padding = file.find(name + ".padding");
      return Attention(x, 1).layer(
          x[0], {.key_padding_mask = padding != nullptr ? *padding : Tensor(), .causal = causal});
    });
  };
  const auto cross = [&](const std::string& name) {
    return std::pair<std::string, testing::Function>(name, [&file, name](const Inputs& x) {
      const Tensor* padding = file.find(name + ".padding");
      return Attention(x, 3).layer(x[0], x[1], x[2],
                                   {.key_padding_mask = padding != nullptr ? *padding : Tensor()});
    });
  };
  check_family(
      file,
      {own("self", false),
       own("self_causal", true),
       own("self_padding", false),
       own("self_both", true),
       own("self_no_bias", false),
       cross("cross"),
       cross("cross_padding"),
       {"sdpa", [](const Inputs& x) { return scaled_dot_product_attention(x[0], x[1], x[2]); }},
       {"sdpa_causal", [](const Inputs& x) {
          return scaled_dot_product_attention(x[0], x[1], x[2], 0, {.causal = true, .scale = 0.3});
        }}});
}

}  // namespace
}  // namespace lockstep
