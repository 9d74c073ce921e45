// This project's side of tools/interop.sh:
//
//   resnet_interop make MODEL OUT              random weights and statistics, exported
//   resnet_interop run MODEL DTYPE IN IMAGES OUT
//
// `run` imports IN strictly and writes to OUT, in torchvision's layouts: "eval_logits", and from
// one step in training "logits", "grad.<name>" and "after.<name>", the buffers behind it; and
// "same.<name>", what an export gives right after the import. IMAGES holds "images" [N, H, W, 3]
// and "grad_logits" [N, 1000].
#include "lockstep/base/error.h"
#include "lockstep/io/safetensors.h"
#include "lockstep/models/resnet.h"
#include "lockstep/models/resnet_exchange.h"
#include "lockstep/tensor/ops/copy.h"

#include <cstdio>
#include <string>
#include <vector>

namespace lockstep {
namespace {

void make(const std::string& name, const std::string& out) {
  Generator rng(3);
  const auto model = make_resnet(name, {}, rng);
  // Fresh statistics and normalisations would hide a mix-up among them.
  int64_t count = 0;
  for (auto& [key, tensor] : model->state_dict()) {
    ++count;
    if (tensor.dtype() == DType::kI64) *tensor.mutable_data<int64_t>() = count;
    if (tensor.ndim() != 1) continue;
    const bool mean_like = key.ends_with("running_mean") || key.ends_with("bias");
    float* values = tensor.mutable_data<float>();
    for (int64_t i = 0; i < tensor.numel(); ++i) {
      const auto ripple = static_cast<float>((i * 7 + count * 3) % 11) / 10 - 0.5f;  // -0.5 to 0.5
      values[i] = mean_like ? 0.2f * ripple : 1 + 0.4f * ripple;
    }
  }
  export_resnet(out, model->state_dict(), name);
}

void run(const std::string& name, const std::string& dtype_name, const std::string& in,
         const std::string& images_path, const std::string& out_path) {
  check(dtype_name == "f32" || dtype_name == "f64", "wanted f32 or f64, got ", dtype_name);
  const DType dtype = dtype_name == "f32" ? DType::kF32 : DType::kF64;
  Generator rng(0);
  const auto model = make_resnet(name, {}, rng);
  model->to(dtype);
  import_resnet(*model, in);
  std::vector<NamedTensor> out;
  const auto put = [&](const std::string& prefix, const std::vector<NamedTensor>& state) {
    for (const auto& [key, tensor] : to_torchvision(state)) {
      out.push_back({prefix + key, ops::clone(tensor)});
    }
  };
  put("same.", model->state_dict());
  const TensorFile given = read_safetensors(images_path);
  const Variable images(ops::cast(given.at("images"), dtype));
  model->eval();
  out.push_back({"eval_logits", (*model)(images).data()});
  model->train();
  const Variable logits = (*model)(images);
  logits.backward(ops::cast(given.at("grad_logits"), dtype));
  out.push_back({"logits", logits.data()});
  std::vector<NamedTensor> grads, buffers;
  for (const auto& [key, parameter] : model->named_parameters()) {
    check(parameter.grad().has_value(), key, " has no gradient");
    grads.push_back({key, *parameter.grad()});
  }
  for (const auto& [key, buffer] : model->named_buffers()) buffers.push_back({key, buffer});
  put("grad.", grads);
  put("after.", buffers);
  write_safetensors(out_path, out);
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  const std::vector<std::string> a(argv + 1, argv + argc);
  try {
    if (a.size() == 3 && a[0] == "make") {
      lockstep::make(a[1], a[2]);
    } else if (a.size() == 6 && a[0] == "run") {
      lockstep::run(a[1], a[2], a[3], a[4], a[5]);
    } else {
      std::fprintf(stderr, "resnet_interop: make MODEL OUT | run MODEL DTYPE IN IMAGES OUT\n");
      return 2;
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "resnet_interop: %s\n", error.what());
    return 1;
  }
  return 0;
}
