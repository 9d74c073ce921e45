"""The rules of the house: lockstep_library, lockstep_binary and lockstep_test.

Headers are included as "lockstep/<folder>/<file>.h" from everywhere, which is also how an installed copy is used.
"""

_COPTS = [
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wno-unknown-pragmas",
    # g++ 12 reports an overlap inside std::string's own operator+ (GCC bug 105651).
    "-Wno-restrict",
]

# Tests are compiled for a short build, not for speed: what they measure is in the libraries.
_TEST_COPTS = [
    "-O1",
    "-DDOCTEST_CONFIG_SUPER_FAST_ASSERTS",
]

# Another workspace that builds these libraries does not read this one's .bazelrc, and its compiler may warn of more.
_OUTSIDE_COPTS = [
    "-std=c++20",
    "-fopenmp",
    "-fno-math-errno",
    "-w",
]

def _library_copts():
    return _COPTS if native.repository_name() == "@" else _OUTSIDE_COPTS

def lockstep_library(name, hdrs = [], private_hdrs = [], copts = [], deps = [], **kwargs):
    """A library. `private_hdrs` are included by its own sources only."""
    prefix = "lockstep/" + native.package_name()
    strip = "/" + native.package_name()
    private_deps = []
    if private_hdrs:
        native.cc_library(
            name = name + "_private",
            hdrs = private_hdrs,
            include_prefix = prefix,
            strip_include_prefix = strip,
            visibility = ["//visibility:private"],
            deps = deps,
        )
        private_deps = [":" + name + "_private"]
    native.cc_library(
        name = name,
        hdrs = hdrs,
        copts = _library_copts() + copts,
        include_prefix = prefix,
        strip_include_prefix = strip,
        deps = deps + private_deps,
        **kwargs
    )

def lockstep_binary(name, deps = [], copts = [], linkopts = [], **kwargs):
    """A program. On a processor older than the one it was built for it says so; it can be started without standard streams.

    One that reads its command line with CLI11 also gets a test, <name>_help_test: tests/help."""
    if "@cli11" in deps and not kwargs.get("testonly"):
        native.cc_test(
            name = name + "_help_test",
            size = "small",
            args = ["$(location :" + name + ")"],
            data = [":" + name],
            linkopts = ["-fopenmp", "-lpthread"],
            deps = ["//tests/help:help_cases"],
        )
    native.cc_binary(
        name = name,
        copts = _COPTS + copts,
        linkopts = ["-fopenmp", "-lpthread"] + linkopts,
        deps = deps + [
            "//base:isa_guard",
            "//base:standard_streams",
            "//base:tsan_suppressions",
        ],
        **kwargs
    )

def lockstep_test(name, srcs, deps = [], copts = [], linkopts = [], size = "small", **kwargs):
    """One doctest executable. Test cases print a line "SKIPPED: why" when what they need is not there."""
    native.cc_test(
        name = name,
        srcs = srcs,
        size = size,
        copts = _COPTS + _TEST_COPTS + copts,
        linkopts = ["-fopenmp", "-lpthread"] + linkopts,
        deps = deps + [
            "//base:tsan_suppressions",
            "//tests/support:doctest_main",
        ],
        **kwargs
    )
