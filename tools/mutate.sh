#!/usr/bin/env bash
# Do the tests notice when the engine is wrong? Puts the faults of tools/mutations.txt into a copy of this tree, one at a
# time, and runs the tests that should fail. Exits non-zero unless each fault is caught.
#   tools/mutate.sh            all of them (a quarter of an hour on two cores)
#   tools/mutate.sh NAME...    some
#   tools/mutate.sh --list     what there is
# The list is checked first: lines that are not found exactly once are an error. So are tests that fail without a fault,
# and a fault that does not compile.
set -uo pipefail
cd "$(dirname "$0")/.."
list=tools/mutations.txt
test_seconds=120

names=() words=() files=() olds=() news=() tests=()
read_list() {
  local line n=-1 number=0
  while IFS= read -r line; do
    number=$((number + 1))
    case "$line" in
      '' | '#'*) ;;
      '  - '* | '  -') olds[n]+="${line:4}"$'\n' ;;
      '  + '* | '  +') news[n]+="${line:4}"$'\n' ;;
      '  //'*) tests[n]+="${line#  } " ;;
      '  '*) files[n]=${line#  } ;;
      [a-z]*': '*)
        n=$((n + 1))
        names[n]=${line%%: *} words[n]=${line#*: } files[n]='' olds[n]='' news[n]='' tests[n]=''
        ;;
      *) echo "mutate: $list:$number: wanted a fault, its file, its lines or its tests, got: $line" >&2; exit 2 ;;
    esac
  done <"$list"
}

# The file with its lines `old` replaced; fails unless they are there exactly once. Indentation and comments do not count.
mutated() {
  old=${2%$'\n'} new=${3%$'\n'} awk '
    function bare(s) { sub(/^[ \t]+/, "", s); sub(/[ \t]*\/\/.*/, "", s); return s }
    BEGIN { n = split(ENVIRON["old"], want, "\n") }
    { line[NR] = $0 }
    END {
      for (i = 1; i <= NR - n + 1; ++i) {
        for (k = 1; k <= n && bare(line[i + k - 1]) == bare(want[k]); ++k) {}
        if (k > n) { at = i; ++found }
      }
      if (n == 0 || found != 1) { print found + 0; exit 1 }
      for (i = 1; i <= NR; ++i) {
        if (i == at) { if (ENVIRON["new"] != "") print ENVIRON["new"]; i += n - 1 } else print line[i]
      }
    }' "$1"
}

check_list() {
  local i count bad=0
  for i in "${!names[@]}"; do
    if [ ! -f "${files[i]}" ] || [ -z "${tests[i]}" ]; then
      echo "mutate: ${names[i]}: wanted a file and tests, got '${files[i]}' and '${tests[i]}'" >&2
      bad=1
    elif ! count=$(mutated "${files[i]}" "${olds[i]}" "${news[i]}"); then
      echo "mutate: ${names[i]}: wanted these lines once in ${files[i]}, found them $count times:" >&2
      printf '%s' "${olds[i]}" >&2
      bad=1
    fi
  done
  if [ "$(printf '%s\n' "${names[@]}" | sort | uniq -d)" ]; then
    echo "mutate: a name comes twice: $(printf '%s\n' "${names[@]}" | sort | uniq -d)" >&2
    bad=1
  fi
  return $bad
}

scratch='' client=''
clean_up() {
  trap '' INT TERM HUP
  [ -n "$scratch" ] || return
  {
    if [ -n "$client" ]; then kill "$client"; wait "$client"; fi
    (cd "$scratch/tree" && bazel --output_base="$scratch/base" shutdown) ||
      kill "$(cat "$scratch/base/server/server.pid.txt")"  # it had not started far enough to hear that
    chmod -R u+w "$scratch"
    rm -rf "$scratch"
  } >/dev/null 2>&1
}
trap clean_up EXIT
trap 'exit 130' INT TERM HUP

# Bazel in the copy, with an output base of its own; what it says is in $scratch/said. In the background, as a shell heeds
# a signal only when the program in front of it has ended.
in_copy() {
  (cd "$scratch/tree" && exec bazel --output_base="$scratch/base" "$@") >"$scratch/said" 2>&1 &
  client=$!
  wait "$client"
  local status=$?
  client=''
  return $status
}

# The test case in whose section of a doctest log the first error is.
failed_case() {
  sed -E 's/\x1b\[[0-9;]*m//g' "$1" | awk '
    /^TEST CASE: / { sub(/^TEST CASE: +/, ""); name = $0 }
    / ERROR: / && name != "" { print name; exit }'
}

# What the first failing test of the last run says, in $verdict.
read_failure() {
  local target how log name
  read -r target how log < <(awk '$1 ~ /^\/\// && /FAILED in|TIMEOUT in/ { print $1, $2, (getline > 0 ? $1 : ""); exit }' \
    "$scratch/said")
  [ -f "$log" ] || return 1
  name=$(failed_case "$log")
  verdict="$target \"${name:-no test case}\""
  if [ "$how" = TIMEOUT ]; then verdict+=", a hang that the limit of $test_seconds s ended"; fi
}

read_list
check_list || exit 2
if [ "${1:-}" = --list ]; then
  for i in "${!names[@]}"; do printf '%-30s %s\n' "${names[i]}" "${words[i]}"; done
  exit
fi
chosen=()
for name in "$@"; do
  for i in "${!names[@]}"; do [ "${names[i]}" != "$name" ] || { chosen+=("$i"); continue 2; }; done
  echo "mutate: there is no fault $name; --list shows them" >&2
  exit 2
done
[ $# -gt 0 ] || chosen=("${!names[@]}")

scratch=$(mktemp -d "${TMPDIR:-/tmp}/lockstep_mutate.XXXXXX") || exit 2
mkdir "$scratch/tree" "$scratch/kept"
git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do
  [ ! -f "$file" ] || printf '%s\0' "$file"
done | xargs -0 cp -p --parents -t "$scratch/tree"
# Its disk cache, if it has one, saves building everything again; what is broken stays out of it.
options=(--config=opt --noshow_progress --test_output=summary --test_timeout=$test_seconds)
if [ -f user.bazelrc ]; then cp user.bazelrc "$scratch/tree"; fi
grep -qs disk_cache user.bazelrc ~/.bazelrc || options+=(--disk_cache="$scratch/cache")

echo "== without a fault"
read -ra targets <<<"$(for i in "${chosen[@]}"; do printf '%s\n' ${tests[i]}; done | sort -u | tr '\n' ' ')"
if ! in_copy test "${options[@]}" "${targets[@]}"; then
  cat "$scratch/said"
  read_failure && echo "mutate: the tests fail without a fault: $verdict" >&2
  exit 2
fi
echo "${#targets[@]} tests pass"

options+=(--noremote_upload_local_results --nocache_test_results)
rows=() failures=0
for i in "${chosen[@]}"; do
  echo "== ${names[i]}: ${words[i]}"
  cp -p "$scratch/tree/${files[i]}" "$scratch/kept/source"
  mutated "$scratch/kept/source" "${olds[i]}" "${news[i]}" >"$scratch/tree/${files[i]}"
  start=$SECONDS outcome=
  read -ra targets <<<"${tests[i]}"
  in_copy test "${options[@]}" "${targets[@]}"
  case $? in
    0) outcome='NOT CAUGHT' ;;
    3) read_failure && outcome="caught by  $verdict" ;;  # all is built, and a test failed
  esac
  if [ -z "$outcome" ]; then
    outcome='ERROR      it does not build'
    cat "$scratch/said"
  fi
  [[ $outcome == caught* ]] || failures=$((failures + 1))
  echo "   $outcome ($((SECONDS - start)) s)"
  rows+=("$(printf '%-30s %s' "${names[i]}" "$outcome")")
  cp -p "$scratch/kept/source" "$scratch/tree/${files[i]}"
done

printf '\n'
printf '%s\n' "${rows[@]}"
echo "$((${#chosen[@]} - failures)) of ${#chosen[@]} faults caught"
[ "$failures" -eq 0 ]
