#!/usr/bin/env bash
# Sets up, builds everything and runs every test. The last line: "N passed, N failed, N skipped", in test cases. Arguments
# are handed on to Bazel: tools/test.sh --config=asan
set -uo pipefail
cd "$(dirname "$0")/.."
tools/setup.sh --dev || exit 1
config=--config=opt
filters=()
for argument in "$@"; do
  case "$argument" in
    --config=asan) config= filters=(--test_tag_filters=-no_asan --build_tag_filters=-no_asan) ;;
    --config=tsan) config= filters=(--test_tag_filters=-no_tsan --build_tag_filters=-no_tsan) ;;
  esac
done
events=$(mktemp)
trap 'rm -f "$events"' EXIT
bazel test $config --keep_going --noshow_progress --build_event_json_file="$events" "${filters[@]}" "$@" -- //...
tools/count_tests.sh $? "$events"
