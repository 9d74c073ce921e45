#!/usr/bin/env bash
# Is every source formatted as .clang-format says? The style is pinned to clang-format 14; other versions lay out some
# lines differently, so with another one the check is skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
format=$(command -v clang-format-14 || command -v clang-format || true)
if [ -z "$format" ] || ! "$format" --version | grep -q 'version 14\.'; then
  echo "SKIPPED: clang-format 14 is not installed"
  exit 0
fi
git ls-files '*.h' '*.cc' '*.cu' '*.cuh' | xargs -r "$format" --dry-run --Werror
