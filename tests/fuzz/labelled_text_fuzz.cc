// TSV and JSONL of labelled texts: a line of each label is what it says.

// sources: data/text/read_labelled_text.cc data/text/text_file.cc data/text/utf8.cc

// sources: io/mapped_file.cc

#include "lockstep/base/error.h"
#include "lockstep/data/text/labelled_text.h"

#include <unistd.h>
#include <cstdio>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;
  static const std::string stem = "/dev/shm/lockstep-fuzz-" + std::to_string(getpid());
  for (const char* suffix : {".tsv", ".jsonl"}) {
    const std::string path = stem + suffix;
    std::FILE* file = std::fopen(path.c_str(), "wb");
    if (file == nullptr) std::abort();
    std::fwrite(data, 1, size, file);
    std::fclose(file);
    try {
      const auto lines = read_labelled_text(path);
      if (lines.empty()) std::abort();
      for (const LabelledLine& line : lines) {
        if (line.label.empty() || line.line < 1) std::abort();
        if (line.text_b.has_value() != lines[0].text_b.has_value()) std::abort();
      }
    } catch (const IoError&) {
    }
    std::remove(path.c_str());
  }
  return 0;
}
