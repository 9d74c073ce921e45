#!/usr/bin/env bash
# The installed headers compile with no include folder but the installed one, in any order, and ask for no library but the
# standard one and the system's.
. tests/packaging/support.sh
unpack
cd "$prefix/include"
foreign=$(grep -rnE '^ *# *include' lockstep | grep -vE '#include <[a-z0-9_]+>|#include <(sys|linux)/[a-z0-9_]+\.h>|#include <(immintrin|fcntl|unistd)\.h>|#include "lockstep/' || true)
[ -z "$foreign" ] || fail "headers include others than the standard library's and Lockstep's: $foreign"
find lockstep -name '*.h' | LC_ALL=C sort >"$scratch/headers"
while IFS= read -r header; do
  while IFS= read -r included; do
    [ -f "$included" ] || fail "$header includes $included, which is not installed"
  done < <(sed -nE 's/^ *# *include "(.*)".*/\1/p' "$header")
done <"$scratch/headers"
# One by one takes minutes. In both orders, each comes before all that the other order puts before it.
for order in cat tac; do
  "$order" "$scratch/headers" | sed 's/.*/#include "&"/' >"$scratch/$order.cc"
  g++ -std=c++20 -fsyntax-only -Wall -Wextra -Werror -I. "$scratch/$order.cc" 2>"$scratch/errors" || fail "$(head -20 "$scratch/errors")"
done
echo "PASSED: $(wc -l <"$scratch/headers") headers"
