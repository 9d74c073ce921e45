#!/usr/bin/env bash
# clang-tidy over the library's sources, or over the files given. Headers are found through a folder of links that looks
# like an installed copy, so no compilation database is needed.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v clang-tidy >/dev/null || { echo "SKIPPED: clang-tidy is not installed"; exit 0; }
include=$(mktemp -d)
trap 'rm -rf "$include"' EXIT
ln -s "$PWD" "$include/lockstep"
# What the build generates.
mkdir -p "$include/generated/lockstep/base"
echo 'inline constexpr const char* kBuildCommit = "unknown";' >"$include/generated/lockstep/base/build_commit.h"
sed 's/@[A-Z]*@/0/g' base/version.h.in >"$include/generated/lockstep/base/version.h"
files=("$@")
# base/isa_* probe the processor by g++'s names, which clang does not know.
[ ${#files[@]} -gt 0 ] || mapfile -t files < <(git ls-files '*.cc' ':!tests/fuzz' ':!tests/cuda' ':!base/isa_*')
printf '%s\0' "${files[@]}" | xargs -0 -I{} -P "$(nproc)" \
  clang-tidy --quiet --warnings-as-errors='*' {} -- \
  -std=c++20 -fopenmp -I"$include" -I"$include/generated" -isystem /usr/include/eigen3
