// Which operators map to something here, and why the others do not.
#include "lockstep/tests/onnx/node.h"

#include <map>

namespace lockstep::testing {
namespace {

const std::map<std::string, const OnnxAdapter*>& adapters() {
  static const auto all = [] {
    std::map<std::string, const OnnxAdapter*> by_name;
    for (const auto family :
         {elementwise_adapters(), layout_adapters(), reduce_adapters(), image_adapters(),
          norm_adapters(), loss_adapters(), optimizer_adapters()}) {
      for (const OnnxAdapter& adapter : family) by_name[adapter.op] = &adapter;
    }
    return by_name;
  }();
  return all;
}

struct Absence {
  const char* reason;
  std::vector<const char*> ops;
};

const Absence kAbsences[] = {
    {"no arithmetic of quantised integers",
     {"ConvInteger", "MatMulInteger", "QLinearConv", "QLinearMatMul", "QuantizeLinear",
      "DequantizeLinear", "DynamicQuantizeLinear"}},
    {"no strings", {"StringNormalizer", "TfIdfVectorizer"}},
    {"no sequences or optional values",
     {"SequenceInsert", "SequenceMap", "SequenceEmpty", "SequenceLength", "OptionalHasElement",
      "OptionalGetElement"}},
    {"control flow is C++", {"If", "Loop", "Scan"}},
    {"no recurrent layers", {"RNN", "LSTM", "GRU"}},
    {"no signal processing",
     {"DFT", "STFT", "HannWindow", "HammingWindow", "BlackmanWindow", "MelWeightMatrix"}},
    {"no detection", {"NonMaxSuppression", "RoiAlign"}},
    {"no resampling of tensors", {"Resize", "Upsample", "GridSample", "MaxUnpool"}},
    {"another generator's random numbers", {"Bernoulli", "RandomUniformLike"}},
    {"no logic on masks", {"And", "Or", "Xor"}},
    {"no integer arithmetic", {"BitShift", "Mod"}},
    {"no such function of one number",
     {"Sin",       "Cos",       "Tan",      "Asin",     "Acos",  "Atan",           "Sinh",
      "Cosh",      "Asinh",     "Acosh",    "Atanh",    "Erf",   "Ceil",           "Floor",
      "Round",     "Sign",      "Elu",      "Celu",     "Selu",  "Shrink",         "HardSigmoid",
      "HardSwish", "LeakyRelu", "Softplus", "Softsign", "PRelu", "ThresholdedRelu"}},
    {"no overwriting at positions; `scatter_add` adds along one dimension",
     {"Scatter", "ScatterND"}},
    {"positions in several dimensions at once", {"GatherND"}},
    {"no sorting or searching", {"TopK", "Unique", "NonZero", "Compress"}},
    {"convolution and pooling pad by themselves; nothing else does", {"Pad"}},
};

}  // namespace

const OnnxAdapter* find_adapter(const std::string& op) {
  const auto found = adapters().find(op);
  return found == adapters().end() ? nullptr : found->second;
}

std::string why_no_adapter(const std::string& op) {
  for (const Absence& absence : kAbsences) {
    for (const char* absent : absence.ops) {
      if (op == absent) return absence.reason;
    }
  }
  return "no such op";
}

}  // namespace lockstep::testing
