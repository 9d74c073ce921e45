#!/usr/bin/env bash
# count_tests.sh STATUS EVENTS: adds up the test cases in the logs of a `bazel test` that ended with STATUS, and exits
# non-zero when one failed. EVENTS is its --build_event_json_file, which names the logs; others in bazel-testlogs may be of
# tests that no longer exist. A log without its summary counts as one failure; a line "SKIPPED: why" as one skipped case.
set -uo pipefail
cd "$(dirname "$0")/.."
status=$1 events=$2
passed=0 failed=0 skipped=0
while IFS= read -r log; do
  summary=$(grep -a '\[doctest\] test cases:' "$log" | tail -1 | sed -E 's/\x1b\[[0-9;]*m//g')
  skips=$(grep -ac '^SKIPPED: ' "$log")
  if [[ $summary =~ ([0-9]+)\ passed\ \|\ *([0-9]+)\ failed ]]; then
    ok=${BASH_REMATCH[1]} bad=${BASH_REMATCH[2]}
  elif grep -aq '^PASSED: ' "$log"; then
    ok=1 bad=0  # a script test passes as a whole
  else
    ok=0 bad=1
    echo "FAILED: $(sed -E 's|.*/testlogs/(.*)/test.log|//\1|' <<<"$log") ended without a summary"
  fi
  grep -a '^SKIPPED: ' "$log"
  passed=$((passed + ok - skips)) failed=$((failed + bad)) skipped=$((skipped + skips))
done < <(grep -oE '"file://[^"]*/test\.log"' "$events" | sed -E 's|^"file://(.*)"$|\1|' | sort -u)
# Bazel also fails when something does not build or a test times out.
if [ "$status" -ne 0 ] && [ "$failed" -eq 0 ]; then failed=1; fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
