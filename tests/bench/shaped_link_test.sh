#!/usr/bin/env bash
# The ranks find each other's address over the link, exit codes come through, and no namespace stays.
set -euo pipefail
link=bench/shaped_link.sh
fail() { echo "shaped_link_test: $*" >&2; exit 1; }

"$link" 1gbit 2>/dev/null && fail "a missing program was accepted"
"$link" fast -- true 2>/dev/null && fail "the rate 'fast' was accepted"
"$link" 0gbit -- true 2>/dev/null && fail "the rate 0gbit was accepted"
if ! { ip netns add "lstest$$" && ip netns delete "lstest$$"; } 2>/dev/null; then
  out=$("$link" 1gbit -- echo ran 2>/dev/null)
  [ "$out" = "ran --emulated-link 1gbit" ] || fail "without namespaces wanted the emulated link, got '$out'"
  echo "SKIPPED: network namespaces cannot be made here"
  echo "PASSED: shaped_link_test, as far as it could run"
  exit 0
fi
before=$(ip netns list | grep -c '^ls[0-9]' || true)
out=$("$link" 100mbit -- bash -c 'echo "$RANK of $WORLD_SIZE at $MASTER_ADDR"; [ ${#LOCKSTEP_TOKEN} = 32 ]; ip -br addr')
grep -q '^0 of 2 at 10\.213\.7\.1$' <<<"$out" || fail "rank 0 said: $out"
grep -q '10\.213\.7\.1/24' <<<"$out" || fail "rank 0 has no address: $out"
"$link" 100mbit -- bash -c '[ "$RANK" = 0 ] || ip route get 10.213.7.1 >/dev/null' || fail "rank 1 cannot reach rank 0"
status=0
"$link" 100mbit -- bash -c 'exit $((RANK * 7))' 2>/dev/null || status=$?
[ "$status" = 7 ] || fail "rank 1's exit code 7 came as $status"
begin=$SECONDS status=0
"$link" 100mbit -- bash -c '[ "$RANK" = 1 ] || exec sleep 100; exit 7' 2>/dev/null || status=$?
[ "$status" = 7 ] || fail "the code of the rank that failed first, 7, came as $status"
[ $((SECONDS - begin)) -lt 60 ] || fail "a rank that waits for a failed one was not ended"
after=$(ip netns list | grep -c '^ls[0-9]' || true)
[ "$before" = "$after" ] || fail "$((after - before)) namespaces stayed"
echo "PASSED: shaped_link_test"
