// ResNets from and to torchvision: safetensors files with the names, shapes and layouts of
// torchvision.models' state dicts, which on the other side are
//
//   model.load_state_dict(safetensors.torch.load_file(path))
//   safetensors.torch.save_file(model.state_dict(), path)
//
// The names are this project's own; convolution weights are [out, in, kh, kw] there and
// [out, kh, kw, in] here.
#pragma once

#include "lockstep/models/exchange.h"
#include "lockstep/nn/module.h"
#include "lockstep/tensor/named_tensor.h"

#include <span>
#include <string>
#include <vector>

namespace lockstep {

/// A model's state (parameters and buffers) in torchvision's layouts, on the host. What torchvision
/// has no place for ("layer_drop....") is left out.
std::vector<NamedTensor> to_torchvision(std::span<const NamedTensor> state);

/// The reverse.
std::vector<NamedTensor> from_torchvision(std::span<const NamedTensor> state);

/// Writes to_torchvision(state) to `path`; `model` is a name for the file's metadata. Throws
/// IoError when it cannot be written.
void export_resnet(const std::string& path, std::span<const NamedTensor> state,
                   const std::string& model);

/// Loads a file in torchvision's format into `model`, converting f16, bf16 and f64 to the model's
/// dtype. Strict: Module::load_state_dict's ArgumentError, led by the file's name, for names that
/// are missing or unexpected and shapes that differ; nothing is changed then. Otherwise what fits
/// by name and shape is loaded, such as all but the classifier for another number of classes;
/// ArgumentError when nothing does. Throws IoError for a malformed file.
ImportReport import_resnet(Module& model, const std::string& path, const LoadOptions& options = {});

}  // namespace lockstep
