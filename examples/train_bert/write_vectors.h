// Vectors as a file.
#pragma once

#include "lockstep/tensor/tensor.h"

#include <string>

namespace lockstep::train_bert {

/// Throws ArgumentError for a name that write_vectors() does not know the kind of.
void check_vector_file(const std::string& path);

/// `vectors` f32 [N, H] to FILE.npy (NumPy's format 1.0), FILE.safetensors (as "embeddings"), or
/// FILE.tsv, a line each; to standard output as TSV when `path` is empty. Throws IoError.
void write_vectors(const std::string& path, const Tensor& vectors);

}  // namespace lockstep::train_bert
