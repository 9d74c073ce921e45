// A config.json of a BERT: it is taken, and then it is one that models may be made of and that is
// written and read back the same; or it is refused with one line.

// sources: models/bert_config.cc models/bert_config_json.cc io/atomic_file.cc io/file.cc
// sources: base/failpoint.cc base/log.cc

#include "lockstep/base/error.h"
#include "lockstep/models/bert_config.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const int file = memfd_create("config", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  static const std::string copy = "/dev/shm/lockstep-fuzz-" + std::to_string(getpid());
  if (ftruncate(file, 0) != 0 || pwrite(file, data, size, 0) != static_cast<ssize_t>(size)) abort();
  try {
    const lockstep::BertConfig config = lockstep::read_bert_config(path);
    lockstep::check_bert_config(config);
    if (config.num_labels > 1000) return 0;  // a name for each is slow to write
    lockstep::write_bert_config(copy, config, "BertModel");
    lockstep::BertConfig again = lockstep::read_bert_config(copy);
    unlink(copy.c_str());
    if (config.pad_token_id < 0 && again.pad_token_id == -1)
      again.pad_token_id = config.pad_token_id;
    if (again != config) abort();
  } catch (const lockstep::Error& error) {
    const std::string text = error.what();
    if (text.empty() || text.find('\n') != std::string::npos) abort();
  }
  return 0;
}
