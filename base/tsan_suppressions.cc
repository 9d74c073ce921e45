// What ThreadSanitizer should not report: races inside libraries that are not built with it. Linked
// into every program and test; empty without ThreadSanitizer.

#ifdef __SANITIZE_THREAD__
extern "C" const char* __tsan_default_suppressions();

extern "C" const char* __tsan_default_suppressions() {
  // oneDNN guards its primitive cache by locks that ThreadSanitizer cannot see.
  // Gloo's loop thread still signals a buffer that its owner, having lost a peer, destroys.
  return "race:libdnnl.so\n"
         "race:dnnl::primitive_desc_base::query_md\n"
         "race:dnnl::memory::desc::desc\n"
         "race:gloo::transport::tcp::UnboundBuffer\n";
}
#endif
