"""The version, said once: base/version.h, the shared library, lockstepConfig.cmake and lockstep.pc are made from it."""

VERSION = "0.1.0"

MAJOR, MINOR, PATCH = VERSION.split(".")
