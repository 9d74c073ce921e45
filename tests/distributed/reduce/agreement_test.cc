// Ranks whose models differ: whichever rank is the odd one, every rank throws the same text, which
// names the first difference, and the group can be used again.
#include "lockstep/distributed/data_parallel.h"
#include "lockstep/tests/distributed/reduce/toy.h"

#include <doctest/doctest.h>

#include <deque>
#include <string>
#include <vector>

namespace lockstep {
namespace {

using testing::on_ranks;
using testing::same_on_all;
using testing::thrown_by;

constexpr int kRanks = 3;

struct Entry {
  std::string name;
  Shape shape{2, 3};
  DType dtype = DType::kF32;
  bool frozen = false;
};

struct Listed : Module {
  Listed(const std::vector<Entry>& parameters, const std::vector<Entry>& buffers) {
    for (const Entry& e : parameters) {
      kept.emplace_back(Tensor::zeros(e.shape, e.dtype), !e.frozen);
      register_parameter(e.name, kept.back());
    }
    for (const Entry& e : buffers) {
      tensors.push_back(Tensor::zeros(e.shape, e.dtype));
      register_buffer(e.name, tensors.back());
    }
  }
  std::deque<Variable> kept;
  std::deque<Tensor> tensors;
};

struct Case {
  std::string what;
  std::vector<Entry> parameters, buffers;  // of the odd rank
  std::vector<std::string> words;          // in the message
  std::vector<std::string> ignore = {};
};

const std::vector<Entry> kParameters{{"first"}, {"second"}, {"third", {4}}};
const std::vector<Entry> kBuffers{{"mean", {4}}, {"count", {1}, DType::kI64}};

const std::vector<Case> kCases{
    {"one fewer", {{"first"}, {"second"}}, kBuffers, {"parameter 2", "third f32 [4]", "nothing"}},
    {"one more",
     {{"first"}, {"second"}, {"third", {4}}, {"fourth", {7}}},
     kBuffers,
     {"parameter 3", "fourth f32 [7]", "nothing", "(of 3)", "(of 4)"}},
    {"shape",
     {{"first"}, {"second", {3, 2}}, {"third", {4}}},
     kBuffers,
     {"parameter 1", "second f32 [3, 2]", "second f32 [2, 3]"}},
    {"order",
     {{"second"}, {"first"}, {"third", {4}}},
     kBuffers,
     {"parameter 0", "first f32", "second f32"}},
    {"name", {{"first"}, {"second"}, {"last", {4}}}, kBuffers, {"parameter 2", "third", "last"}},
    {"dtype",
     {{"first", {2, 3}, DType::kF64}, {"second"}, {"third", {4}}},
     kBuffers,
     {"parameter 0", "first f64", "first f32"}},
    {"frozen",
     {{"first"}, {"second", {2, 3}, DType::kF32, true}, {"third", {4}}},
     kBuffers,
     {"parameter 1", "second f32 [2, 3] frozen"}},
    {"all frozen",
     {{"first", {2, 3}, DType::kF32, true},
      {"second", {2, 3}, DType::kF32, true},
      {"third", {4}, DType::kF32, true}},
     kBuffers,
     {"parameter 0", "first f32 [2, 3] frozen"}},
    {"no parameter", {}, kBuffers, {"parameter 0", "first f32 [2, 3]", "nothing", "(of 0)"}},
    {"a buffer's shape",
     kParameters,
     {{"mean", {5}}, {"count", {1}, DType::kI64}},
     {"buffer 0", "mean f32 [5]", "mean f32 [4]"}},
    {"a buffer fewer", kParameters, {{"mean", {4}}}, {"buffer 1", "count i64 [1]", "nothing"}},
    {"ignored", kParameters, kBuffers, {"ignored name 0", "first", "nothing"}, {"first"}},
    {"ignored and not there", kParameters, kBuffers, {"wrong (which its module"}, {"wrong"}},
};

TEST_CASE("whichever rank is the odd one: one text on every rank, with the first difference") {
  for (const Case& one : kCases) {
    for (int odd = 0; odd < kRanks; ++odd) {
      CAPTURE(one.what);
      CAPTURE(odd);
      on_ranks(kRanks, [&](ProcessGroup& group) {
        const bool me = group.rank() == odd;
        Listed module(me ? one.parameters : kParameters, me ? one.buffers : kBuffers);
        const std::string text = thrown_by([&] {
          DataParallel ddp(module, group, {.ignore = me ? one.ignore : std::vector<std::string>{}});
        });
        same_on_all(text, group);
        std::vector<std::string> words = one.words;
        // Compared with rank 0's; if that is the odd one, rank 1 is the first that differs.
        words.push_back("rank 0");
        words.push_back(str("rank ", odd == 0 ? 1 : odd));
        for (const std::string& word : words) {
          check(text.find(word) != std::string::npos, "\"", text, "\" lacks \"", word, "\"");
        }
        Listed same(kParameters, kBuffers);
        const DataParallel ddp(same, group);  // the group goes on
        check(ddp.parameters().size() == 3, "not wrapped");
      });
    }
  }
}

TEST_CASE("a module that changes later is found by rebuild(), on every rank") {
  for (int odd = 0; odd < kRanks; ++odd) {
    on_ranks(kRanks, [&](ProcessGroup& group) {
      Listed module(kParameters, kBuffers);
      DataParallel ddp(module, group);
      module.kept[1].set_requires_grad(group.rank() != odd);
      const std::string text = same_on_all(thrown_by([&] { ddp.rebuild(); }), group);
      check(text.find("second f32 [2, 3] frozen") != std::string::npos, text);
      module.kept[1].set_requires_grad(true);
      ddp.rebuild();
      check(ddp.parameters().size() == 3, "not wrapped");
    });
  }
}

}  // namespace
}  // namespace lockstep
