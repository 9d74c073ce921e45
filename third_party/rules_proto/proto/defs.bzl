"""Hands on Bazel's built-in proto rules; no proto is built here, but Bazel's own tools load these names."""

proto_lang_toolchain = native.proto_lang_toolchain
proto_library = native.proto_library
