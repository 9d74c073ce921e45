"""Finds the CUDA toolkit (CUDA_HOME, else /usr/local/cuda); without one, empty targets keep the workspace loadable.

cuBLASLt and cuDNN have no target: programs load them when they first need them, from the run path that cudart's gives."""

_FOUND = """
package(default_visibility = ["//visibility:public"])
cc_library(name = "headers", hdrs = glob(["cuda/include/**"]), includes = ["cuda/include"])
cc_library(name = "cudart", linkopts = ["-L{home}/lib64", "-l:libcudart_static.a", "-ldl", "-lrt", "-lpthread", "-Wl,-rpath,{home}/lib64"], deps = [":headers"])
cc_library(name = "nccl", linkopts = ["-lnccl"], deps = [":cudart"])
"""

_MISSING = """
package(default_visibility = ["//visibility:public"])
[cc_library(name = n) for n in ["headers", "cudart", "nccl"]]
"""

def _impl(rctx):
    home = rctx.os.environ.get("CUDA_HOME", "/usr/local/cuda")
    found = rctx.path(home + "/bin/nvcc").exists
    if found:
        rctx.symlink(home, "cuda")
    rctx.file("BUILD.bazel", _FOUND.replace("{home}", home) if found else _MISSING)
    rctx.file("defs.bzl", "CUDA_HOME = %r\n" % (home if found else ""))

cuda_configure = repository_rule(implementation = _impl, environ = ["CUDA_HOME"], local = True)
