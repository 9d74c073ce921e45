// train_bert predict and embed: what a trained model says of texts.
#pragma once

#include "options.h"

namespace lockstep::train_bert {

/// Prints the most likely tokens for each [MASK], or classes for a model that was fine-tuned.
/// Throws lockstep::Error.
void predict(const PredictOptions& options);

/// Writes a vector for each line of a file. Throws lockstep::Error.
void embed(const EmbedOptions& options);

}  // namespace lockstep::train_bert
