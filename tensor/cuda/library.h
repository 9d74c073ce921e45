// A library that is loaded when its first function is needed. cuBLASLt alone has half a gigabyte of
// code, which would slow the start of every program, also of one that only uses the CPU.
#pragma once

#include <string>

namespace lockstep::cuda {

class Library {
 public:
  /// Loads `file` ("libcudnn.so.9"), searched where the program's run path and LD_LIBRARY_PATH say;
  /// it stays loaded. `name` is what people call it. Throws UnsupportedError.
  Library(const char* name, const char* file);

  /// Sets `function` to the function called `symbol`; throws UnsupportedError when there is none.
  template <class Fn>
  void bind(Fn*& function, const char* symbol) const {
    function = reinterpret_cast<Fn*>(find(symbol));
  }
  /// The same, or null when there is none: for what a program can do without.
  template <class Fn>
  void bind_if_there(Fn*& function, const char* symbol) const {
    function = reinterpret_cast<Fn*>(find_or_null(symbol));
  }

 private:
  void* find(const char* symbol) const;
  void* find_or_null(const char* symbol) const;

  std::string name_;
  void* handle_;
};

}  // namespace lockstep::cuda
