#!/usr/bin/env bash
# A program of somebody else's, built with the flags that pkg-config gives: rank 1 dies, is started again and joins a new
# group.
. tests/packaging/support.sh
need pkg-config
unpack
export PKG_CONFIG_PATH="$prefix/lib/pkgconfig"
flags=$(pkg-config --cflags --libs lockstep)
mkdir "$scratch/work"
# The folder has a space in its name, which pkg-config's answer quotes.
eval "g++ -std=c++20 -O1 -Wall -Wextra tests/consumers/pkgconfig/main.cc -o '$scratch/work/ring' $flags" \
  "-Wl,-rpath,'$prefix/lib'" 2>"$scratch/log" || fail "$(head -20 "$scratch/log")"
[ "$(pkg-config --modversion lockstep)" = "$("$prefix/bin/lockstep" --version | sed -E 's/lockstep ([0-9.]+).*/\1/')" ] ||
  fail "versions differ: $(pkg-config --modversion lockstep), $("$prefix/bin/lockstep" --version)"
cd "$scratch/work"
OMP_NUM_THREADS=1 timeout 120 ./ring >out 2>err || fail "without a loss: $(cat out err)"
! grep -q 'lost' out || fail "a loss without one: $(cat out)"
OMP_NUM_THREADS=1 timeout 120 ./ring 150 >out 2>err || fail "with a loss: $(cat out err)"
grep -q 'step 150: .*a peer was lost' out || fail "not caught: $(cat out)"
grep -q 'peer 1 of 2 ended with status 9' out || fail "not killed: $(cat out)"
grep -q 'peer 2 of 2 ended with status 0' out || fail "not joined again: $(cat out)"
cat out
echo "PASSED: two ranks again after a loss"
