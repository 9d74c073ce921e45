#!/usr/bin/env bash
# A program of somebody else's, built by CMake against an installed copy: two processes train, one is killed, and the other
# catches the exception and trains on.
. tests/packaging/support.sh
need cmake
unpack
cp -rL tests/consumers/cmake "$scratch/source"
cmake -S "$scratch/source" -B "$scratch/build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$prefix" >"$scratch/log" 2>&1 &&
  cmake --build "$scratch/build" >>"$scratch/log" 2>&1 || fail "$(tail -20 "$scratch/log")"
# A version that there is not is refused.
sed -i 's/lockstep 0.1/lockstep 7.3/' "$scratch/source/CMakeLists.txt"
! cmake -S "$scratch/source" -B "$scratch/other" -DCMAKE_PREFIX_PATH="$prefix" >"$scratch/log" 2>&1 || fail "version 7.3 was found"
grep -q '7.3' "$scratch/log" || fail "wrong words: $(cat "$scratch/log")"

# Two ranks; the exit codes in $codes. Arguments go to the program.
run() {
  local port=$((20000 + RANDOM % 10000)) rank
  codes=''
  for rank in 0 1; do
    RANK=$rank WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port LOCKSTEP_TOKEN=t OMP_NUM_THREADS=1 \
      timeout 120 "$scratch/build/stripes" "$@" >"$scratch/rank$rank" 2>&1 &
    pids[rank]=$!
  done
  for rank in 0 1; do
    code=0
    wait "${pids[rank]}" 2>/dev/null || code=$?
    codes+=" $code"
  done
}
OMP_NUM_THREADS=1 timeout 120 "$prefix/bin/lockstep" launch --nproc 2 --log-dir - -- "$scratch/build/stripes" >"$scratch/log" 2>&1 ||
  fail "$(cat "$scratch/log")"
# Both ranks have the same model.
[ "$(grep -o 'step [0-9]*, accuracy.*' "$scratch/log" | sort | uniq -c | awk '{print $1}')" = 2 ] || fail "$(cat "$scratch/log")"

pids=()
run 40
[ "$codes" = ' 0 137' ] || fail "exit codes$codes: $(cat "$scratch"/rank?)"
grep -q 'rank 0: step 40: .*a peer was lost' "$scratch/rank0" || fail "not caught: $(cat "$scratch/rank0")"
grep -q 'trained on alone' "$scratch/rank0" || fail "not trained on: $(cat "$scratch/rank0")"
cat "$scratch/rank0"
echo "PASSED: the survivor trained on"
