#!/usr/bin/env bash
# Runs the tests that depend on a source changed since BASE (default: the commit before) under AddressSanitizer with
# UBSan, and those of the concurrent parts under ThreadSanitizer as well.
set -euo pipefail
cd "$(dirname "$0")/.."
base=${1:-HEAD~1}
git rev-parse -q --verify "$base^{commit}" >/dev/null || { echo "sanitize: no earlier commit to compare with"; exit 0; }
labels=()
while IFS= read -r file; do
  [ -f "$file" ] || continue
  package=$(dirname "$file")
  while [ "$package" != . ] && [ ! -f "$package/BUILD.bazel" ]; do package=$(dirname "$package"); done
  labels+=("//${package#.}:${file#"$package"/}")
done < <(git diff --name-only "$base" -- '*.h' '*.cc')
[ ${#labels[@]} -gt 0 ] || { echo "sanitize: no source changed"; exit 0; }
status=0
found=$(bazel query --noshow_progress --keep_going "kind(cc_test, rdeps(//tests/..., set(${labels[*]})))") || status=$?
# 3: an answer in part, when some changed file belongs to no target.
[ "$status" -eq 0 ] || [ "$status" -eq 3 ] || { echo "sanitize: bazel query failed" >&2; exit 1; }
[ -n "$found" ] || { echo "sanitize: no test depends on the change"; exit 0; }
mapfile -t tests <<<"$found"
bazel test --config=asan --noshow_progress --test_tag_filters=-no_asan "${tests[@]}"
mapfile -t concurrent < <(printf '%s\n' "${tests[@]}" | grep -E '^//tests/(base|data|distributed)' || true)
[ ${#concurrent[@]} -eq 0 ] ||
  bazel test --config=tsan --noshow_progress --test_tag_filters=-no_tsan "${concurrent[@]}"
