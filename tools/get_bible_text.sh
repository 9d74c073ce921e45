#!/usr/bin/env bash
# The King James Bible (public domain) as files to train on, from Debian's packages bible-kjv and bible-kjv-text:
#   tools/get_bible_text.sh DIR
# DIR/train.txt, DIR/val.txt: a verse in each line, an empty line behind each chapter; every 20th chapter is for validation.
# DIR/train.tsv, DIR/val.tsv: the same verses and old or new, their testament, with a tab between.
set -euo pipefail
[ $# -eq 1 ] && [ "${1#-}" = "$1" ] || { sed -n '2,5s/^# \{0,1\}//p' "$0"; [ "${1:-}" = --help ] && exit 0 || exit 2; }
if ! command -v bible >/dev/null; then
  echo "get_bible_text: wanted the program bible; 'sudo apt install bible-kjv bible-kjv-text' installs it" >&2
  exit 1
fi
mkdir -p "$1"
cd "$1"
# -f turns pretty-printing off; each line is then "Ge1:1 In the beginning ...".
bible -f gen1:1-rev22:21 </dev/null >verses.tmp
verses=$(wc -l <verses.tmp)
[ "$verses" = 31102 ] || { echo "get_bible_text: wanted 31102 verses from bible, got $verses" >&2; exit 1; }
awk '
  {
    chapter = $1
    sub(/:.*/, "", chapter)
    text = substr($0, index($0, " ") + 1)
    if (chapter != before) {
      if (++chapters > 1) print "" > (part ".txt")
      part = chapters % 20 == 0 ? "val" : "train"
      if (chapter == "Mat1") testament = "new"
    }
    before = chapter
    print text > (part ".txt")
    print text "\t" (testament == "" ? "old" : testament) > (part ".tsv")
  }
' verses.tmp
rm verses.tmp
wc -l train.txt val.txt train.tsv val.tsv | sed '$d'
