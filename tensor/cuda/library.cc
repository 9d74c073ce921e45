#include "lockstep/tensor/cuda/library.h"

#include "lockstep/base/error.h"

#include <dlfcn.h>

namespace lockstep::cuda {
namespace {

std::string reason() {
  const char* text = dlerror();
  return text == nullptr ? "unknown error" : text;
}

}  // namespace

Library::Library(const char* name, const char* file)
    : name_(name), handle_(dlopen(file, RTLD_NOW | RTLD_LOCAL)) {
  if (handle_ == nullptr) {
    throw UnsupportedError(str("cuda: ", name, " was not found (", reason(),
                               "); install it, or name its folder in LD_LIBRARY_PATH, or use "
                               "--device cpu"));
  }
}

void* Library::find_or_null(const char* symbol) const { return dlsym(handle_, symbol); }

void* Library::find(const char* symbol) const {
  void* found = find_or_null(symbol);
  if (found == nullptr) {
    throw UnsupportedError(str("cuda: this ", name_, " has no ", symbol, " (", reason(),
                               "); install the release that this program was built with"));
  }
  return found;
}

}  // namespace lockstep::cuda
