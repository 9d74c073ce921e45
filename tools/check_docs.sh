#!/usr/bin/env bash
# Do the pages tell the truth about names? Every file that README.md and docs/ name in backquotes or link to has to exist,
# and every test case that they quote has to be in the tests.
set -uo pipefail
cd "$(dirname "$0")/.."
wrong=0
complain() {
  echo "$1: $2"
  wrong=1
}
exists() {  # a file, a folder, a target's sources, a test by its name
  local path=$1
  [ -e "$path" ] || compgen -G "$path.*" >/dev/null || compgen -G "${path/\{h,cc\}/}h" >/dev/null
}
for page in README.md docs/*.md; do
  while IFS= read -r name; do
    name=${name//\`/}
    name=${name/#D\//tests/distributed/}
    name=${name/#R\//tests/distributed/reduce/}
    name=${name%%:*}
    top=${name%%/*}
    [ -d "$top" ] && [ -n "$top" ] || continue
    exists "$name" || complain "$page" "there is no $name"
  done < <(grep -o '`[A-Za-z_.]*/[A-Za-z0-9_./{},-]*\(:[a-z0-9_]*\)\?`' "$page")
  while IFS= read -r link; do
    link=${link#](}
    link=${link%)}
    [ -e "$(dirname "$page")/$link" ] || complain "$page" "there is no $link"
  done < <(grep -o '](\([A-Za-z0-9_./-]*\))' "$page")
done
while IFS= read -r quoted; do
  grep -rqF -- "${quoted//\"/}" tests --include='*_test.cc' || complain docs/paper_map.md "no test case says $quoted"
done < <(grep '^|' docs/paper_map.md | cut -d'|' -f5 | grep -o '"[^"]*"')
[ $wrong = 0 ] && echo "the pages name nothing that is not there"
exit $wrong
