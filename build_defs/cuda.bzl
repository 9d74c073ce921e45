"""cuda_library: .cu files -> objects by nvcc -> CcInfo, for the deps of any C++ rule; if_cuda: a choice by --config=cuda.

The output group `resources` of a cuda_library has a file _objs/<name>/<source>.resources for each source: the registers, the
shared memory and the spills of its kernels, as ptxas reports them.

Nothing here runs without --config=cuda, so that a machine without nvcc builds everything else.
"""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")
load("@local_cuda//:defs.bzl", "CUDA_HOME")

# nvcc reads its own flags alone: the instruction set and OpenMP of the C++ rules must not reach it, and what the host
# compiler needs goes through -Xcompiler. -Wno-unused-function: nvcc's own stubs. -fPIC: the same objects go into programs
# and into the shared library.
_COPTS = [
    "-std=c++20",
    "--expt-relaxed-constexpr",
    "-Werror=all-warnings",
    "-Xcompiler=-Wall,-Wextra,-Werror,-Wno-unknown-pragmas,-Wno-unused-function,-fno-math-errno,-fPIC",
]
_MODE_COPTS = {
    "dbg": ["-O0", "-g", "-lineinfo"],
    "fastbuild": ["-O1"],
    "opt": ["-O3", "-DNDEBUG", "-lineinfo"],
}

def _impl(ctx):
    if not CUDA_HOME:
        fail("%s: wanted nvcc for --config=cuda; set CUDA_HOME to a CUDA toolkit" % ctx.label)
    cc = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(ctx = ctx, cc_toolchain = cc, requested_features = ctx.features)
    deps = cc_common.merge_cc_infos(cc_infos = [dep[CcInfo] for dep in ctx.attr.deps])
    compilation = deps.compilation_context
    objects = []
    reports = []
    for src in ctx.files.srcs:
        obj = ctx.actions.declare_file("_objs/%s/%s.o" % (ctx.label.name, src.basename[:-len(".cu")]))
        report = ctx.actions.declare_file("_objs/%s/%s.resources" % (ctx.label.name, src.basename[:-len(".cu")]))
        args = ctx.actions.args()
        args.add_all([report, CUDA_HOME + "/bin/nvcc", "-Xptxas=-v"])
        args.add_all(["-c", src, "-o", obj, "-ccbin", cc.compiler_executable])
        args.add_all(_COPTS + _MODE_COPTS[ctx.var["COMPILATION_MODE"]])
        args.add_all(ctx.attr.archs, format_each = "-gencode=arch=compute_%s")
        args.add_all(compilation.defines, format_each = "-D%s")
        args.add_all(compilation.includes, before_each = "-I")
        args.add_all(compilation.quote_includes, before_each = "-I")
        args.add_all(compilation.system_includes, before_each = "-isystem")
        ctx.actions.run_shell(
            # The report comes with what the compiler complains of.
            command = 'report=$1; shift; "$@" 2> "$report" || { cat "$report" >&2; exit 1; }',
            arguments = [args],
            inputs = depset([src], transitive = [compilation.headers, cc.all_files]),
            outputs = [obj, report],
            mnemonic = "CudaCompile",
            progress_message = "Compiling %s with nvcc" % src.short_path,
            env = {"PATH": CUDA_HOME + "/bin:/usr/bin:/bin", "TMPDIR": "/tmp"},
        )
        objects.append(obj)
        reports.append(report)
    linking, _ = cc_common.create_linking_context_from_compilation_outputs(
        actions = ctx.actions,
        feature_configuration = features,
        cc_toolchain = cc,
        compilation_outputs = cc_common.create_compilation_outputs(objects = depset(objects), pic_objects = depset(objects)),
        linking_contexts = [deps.linking_context],
        name = ctx.label.name,
        disallow_dynamic_library = True,
        alwayslink = True,
    )
    return [
        DefaultInfo(files = depset(objects)),
        OutputGroupInfo(resources = depset(reports)),
        CcInfo(compilation_context = compilation, linking_context = linking),
    ]

_cuda_library = rule(
    implementation = _impl,
    attrs = {
        "archs": attr.string_list(mandatory = True),
        "deps": attr.label_list(providers = [CcInfo]),
        "srcs": attr.label_list(allow_files = [".cu"]),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)

def cuda_library(name, **kwargs):
    """Kernels. `manual`: built where something that is built with --config=cuda depends on it."""
    _cuda_library(
        name = name,
        # Hopper alone while developing; a release also serves Ampere, and later GPUs through PTX.
        archs = select({
            "//third_party/cuda:all_archs": ["80,code=sm_80", "90,code=sm_90", "90,code=compute_90"],
            "//conditions:default": ["90,code=sm_90"],
        }),
        tags = ["manual"],
        **kwargs
    )

def if_cuda(yes, no = []):
    return select({"//third_party/cuda:enabled": yes, "//conditions:default": no})
