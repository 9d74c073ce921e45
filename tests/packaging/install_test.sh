#!/usr/bin/env bash
# tools/install.sh, but for the build: folders of all kinds, again, and back.
. tests/packaging/support.sh
install() { tools/install.sh "$@" --archive="$archive" >"$scratch/out" 2>"$scratch/err"; }
files() { (cd "$1" && find . ! -type d | LC_ALL=C sort); }
unpack
files "$prefix" >"$scratch/first"
for file in ./lib/liblockstep.so ./include/lockstep/tensor/tensor.h ./lib/cmake/lockstep/lockstepConfig.cmake \
  ./lib/pkgconfig/lockstep.pc ./bin/lockstep ./bin/train_resnet ./share/doc/lockstep/LICENSE; do
  grep -qxF "$file" "$scratch/first" || fail "no $file"
done
# Private headers stay at home.
for file in tensor/cpu autograd/engine.h distributed/comm/gloo_connect.h train/command_line.h; do
  [ ! -e "$prefix/include/lockstep/$file" ] || fail "installed: $file"
done

echo mine >"$prefix/include/mine.h"
touch "$prefix/include/lockstep/old.h"
echo include/lockstep/old.h >>"$prefix/share/doc/lockstep/manifest.txt"
LC_ALL=C sort -o "$prefix/share/doc/lockstep/manifest.txt" "$prefix/share/doc/lockstep/manifest.txt"
install "$prefix" || fail "again: $(cat "$scratch/err")"
[ ! -e "$prefix/include/lockstep/old.h" ] || fail "a file of an older version stayed"
tools/install.sh "$prefix" --uninstall >/dev/null || fail "uninstall"
[ "$(files "$prefix")" = ./include/mine.h ] || fail "left: $(files "$prefix")"
! tools/install.sh "$prefix" --uninstall 2>"$scratch/err" || fail "uninstalled twice"
[ "$(wc -l <"$scratch/err")" = 1 ] || fail "wrong words: $(cat "$scratch/err")"

here=$PWD
(cd "$scratch" && "$here/tools/install.sh" "a relative/one" --archive="$archive" >/dev/null) || fail "relative"
[ -f "$scratch/a relative/one/lib/liblockstep.so" ] || fail "relative: not there"
DESTDIR=$scratch/stage install /usr || fail "DESTDIR"
[ -f "$scratch/stage/usr/lib/liblockstep.so" ] || fail "DESTDIR: not there"

touch "$scratch/file"
for wrong in "$scratch/file/below" /proc/1/below; do
  ! install "$wrong" || fail "installed in $wrong"
  [ "$(wc -l <"$scratch/err")" = 1 ] || fail "wrong words for $wrong: $(cat "$scratch/err")"
done
code=0
install "$prefix" --config=avx512 || code=$?
[ "$code" = 2 ] || fail "an option of a build without one: $code"
code=0
tools/install.sh >/dev/null 2>&1 || code=$?
[ "$code" = 2 ] || fail "no PREFIX: $code"
echo "PASSED: install, again, uninstall"
