// train_bert as a process, with texts and models at a size for tests.
#pragma once

#include "lockstep/tests/examples/trainer_process.h"
#include "lockstep/tests/support/temp_dir.h"

#include <memory>
#include <string>
#include <vector>

namespace lockstep::testing {

inline constexpr const char* kTrainBert = "examples/train_bert/train_bert";

/// Sentences of the words of one subject each, of six subjects with three words: what a model can
/// learn in a moment. Twenty lines a document.
std::string small_corpus(int lines);

/// Texts of two classes, "text TAB class": those with the word "sun" and those with "moon".
std::string small_labelled_text(int lines);

/// A model for them, one thread.
std::vector<std::string> small_model();

/// `command`, then small_model() where it trains, then `more`.
std::unique_ptr<Process> run_bert(const std::string& command, std::vector<std::string> more,
                                  const ProcessOptions& options = {});

/// The largest difference of the two checkpoints' weights, relative to the tensor's largest.
double difference(const std::string& a, const std::string& b);

/// The number behind the last `words` in `text`; NaN if there is none.
double number_after(const std::string& text, const std::string& words);

}  // namespace lockstep::testing
