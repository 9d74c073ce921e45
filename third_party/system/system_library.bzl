"""system_library: a C++ library that the operating system's package manager installed.

The repository is a cc_library of the repository's own name. When the header named by `probe` is missing, the build
stops with the package to install instead of a compiler's "no such file".
"""

def _impl(rctx):
    found = rctx.path(rctx.attr.include_dir + "/" + rctx.attr.probe).exists
    if not found:
        # Debian's multiarch headers lie one folder deeper.
        found = rctx.path("/usr/include/x86_64-linux-gnu/" + rctx.attr.probe).exists
    if not found:
        fail("%s: %s/%s not found. Install the package %s (tools/setup.sh does it)." %
             (rctx.name, rctx.attr.include_dir, rctx.attr.probe, rctx.attr.package))
    includes = ""
    hdrs = ""
    if rctx.attr.include_dir != "/usr/include":
        rctx.symlink(rctx.attr.include_dir, "include")
        includes = 'includes = ["include"], hdrs = glob(["include/**"]),'
    rctx.file("BUILD.bazel", """
cc_library(
    name = "{name}",
    linkopts = {linkopts},
    {includes}
    visibility = ["//visibility:public"],
)
""".format(name = rctx.name, linkopts = repr(rctx.attr.linkopts), includes = includes))

system_library = repository_rule(
    implementation = _impl,
    attrs = {
        "include_dir": attr.string(default = "/usr/include"),
        "linkopts": attr.string_list(),
        "package": attr.string(mandatory = True),
        "probe": attr.string(mandatory = True),
    },
    local = True,
)
