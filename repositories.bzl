"""lockstep_repositories: what Lockstep's libraries need, for this workspace and for any that takes it in.

Everything is local: no rule set and no library is downloaded.
"""

load("//third_party/cuda:cuda_configure.bzl", "cuda_configure")
load("//third_party/system:bundled_repository.bzl", "bundled_repository")
load("//third_party/system:system_library.bzl", "system_library")

# Stand-ins for repositories that Bazel's own tools ask for.
_BUNDLED = ["rules_cc", "rules_java", "rules_proto", "remote_coverage_tools"]

# The system's packages; tools/setup.sh installs them.
_SYSTEM = {
    "cli11": dict(package = "libcli11-dev", probe = "CLI/CLI.hpp"),
    "doctest": dict(package = "doctest-dev", probe = "doctest/doctest.h"),
    "eigen": dict(include_dir = "/usr/include/eigen3", package = "libeigen3-dev", probe = "Eigen/Core"),
    "gloo": dict(linkopts = ["-lgloo"], package = "libgloo-dev", probe = "gloo/allreduce.h"),
    "jpeg": dict(linkopts = ["-ljpeg"], package = "libjpeg62-turbo-dev", probe = "jpeglib.h"),
    "json": dict(package = "nlohmann-json3-dev", probe = "nlohmann/json.hpp"),
    "onednn": dict(linkopts = ["-ldnnl"], package = "libdnnl-dev", probe = "dnnl.hpp"),
    "onnx": dict(linkopts = ["-lonnx_proto", "-lprotobuf"], package = "libonnx-dev", probe = "onnx/onnx_pb.h"),  # tests only
    "png": dict(linkopts = ["-lpng"], package = "libpng-dev", probe = "png.h"),
    "utf8proc": dict(linkopts = ["-lutf8proc"], package = "libutf8proc-dev", probe = "utf8proc.h"),
    "zlib": dict(linkopts = ["-lz"], package = "zlib1g-dev", probe = "zlib.h"),
}

def lockstep_repositories():
    """Defines each repository that the workspace has not defined before the call."""
    for name in _BUNDLED:
        if not native.existing_rule(name):
            bundled_repository(name = name)
    for name, attributes in _SYSTEM.items():
        if not native.existing_rule(name):
            system_library(name = name, **attributes)
    if not native.existing_rule("local_cuda"):
        cuda_configure(name = "local_cuda")
