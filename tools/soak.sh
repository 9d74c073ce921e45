#!/usr/bin/env bash
# Does training survive what happens to it? Each trial disturbs a run of three ranks in a way picked at random, checks that
# the other ranks end by themselves and say whose fault it was, resumes, and compares the last checkpoint bit by bit with
# that of a run that nobody disturbed. Exits with 1 if a trial fails.
#   tools/soak.sh [N]              N trials, 200 unless given
#   tools/soak.sh N --seed S       the same again: the seed of a run is its first line
#   tools/soak.sh N --only KIND    kill, point, start, pause, stop or link
#   kill   SIGKILL of a rank at a random moment      point  ... at a failpoint: forward, backward, a collective, a save
#   start  ... while the job starts, under a launcher      pause  SIGSTOP for 3 s, which nobody minds
#   stop   SIGSTOP for longer than the timeout       link   the cable between two hosts down and up (needs root)
# Programs: $TRAIN_RESNET and $LOCKSTEP, or those that Bazel has built.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
trials=200 seed=$((RANDOM * 32768 + RANDOM)) only=
[[ ${1:-} =~ ^[0-9]+$ ]] && { trials=$1; shift; }
while [ $# -gt 0 ]; do
  case "$1:${2:-}" in
    --seed:[0-9]*) seed=$2 ;;
    --only:kill | --only:point | --only:start | --only:pause | --only:stop | --only:link) only=$2 ;;
    *) sed -n '2,11s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
  esac
  shift 2
done
train=${TRAIN_RESNET:-bazel-bin/examples/train_resnet/train_resnet}
lockstep=${LOCKSTEP:-bazel-bin/tools/lockstep}
for program in "$train" "$lockstep"; do
  [ -x "$program" ] || { echo "soak: there is no $program; bazel build --config=opt //examples/train_resnet //tools:lockstep" >&2; exit 2; }
done
echo "seed $seed"
RANDOM=$((seed % 32768))
# A subshell would draw numbers of its own.
pick() { picked=$((RANDOM % $1)); }

scratch=$(mktemp -d "${TMPDIR:-/tmp}/lockstep_soak.XXXXXX")
pids=() net=''
clean_up() {
  for pid in "${pids[@]}"; do kill -9 "$pid" && wait "$pid"; done
  for name in a b; do [ -z "$net" ] || ip netns delete "$net$name"; done
  rm -rf "$scratch"
} 2>/dev/null
trap clean_up EXIT
trap 'exit 130' INT TERM HUP

now_ms() { echo $((${EPOCHREALTIME/[.,]/} / 1000)); }
in_seconds() { printf '%d.%02d' $(($1 / 1000)) $(($1 % 1000 / 10)); }
settings=(--threads 1 --model resnet8 --batch-size 16 --max-steps 20 --checkpoint-every 4 --evaluate-every 20 --seed 7
  --bucket-cap-mb 0.1 --log-interval 5)
timeout_s=30  # of one operation
help=$("$train" --help)
if grep -q -- '--timeout ' <<<"$help"; then timeout_s=6 settings+=(--timeout 6); fi
within=5000  # ms that the others may take once a rank is gone

# Starts rank $1 in folder $2 with the failpoint $3, through the command before it, if any.
start_rank() {
  local rank=$1 dir=$2 point=$3
  shift 3
  env RANK="$rank" WORLD_SIZE=3 LOCAL_RANK="$rank" LOCAL_WORLD_SIZE=3 OMP_NUM_THREADS=1 TMPDIR="$dir/tmp" \
    LOCKSTEP_FAILPOINT="$point" "$@" "$train" "${settings[@]}" --output-dir "$dir/run" --resume auto \
    ${meet:+--init-method "file://$meet"} >"$dir/out$rank" 2>"$dir/err$rank" </dev/null &
  pids[rank]=$!
}
# All three; the failpoint $3 for rank $2.
start_ranks() {
  mkdir -p "$1/tmp"
  meet=$1/meet
  rm -f "$meet"
  local rank
  for rank in 0 1 2; do start_rank "$rank" "$1" "$([ "$rank" = "$2" ] && echo "$3")"; done
}
# Waits for the ranks, at most $1 ms: code[r] and end_ms[r] of each. Fails if one is still there; then all are killed.
collect() {
  local until=$(($(now_ms) + $1)) rank
  while [ ${#pids[@]} -gt 0 ] && [ "$(now_ms)" -lt "$until" ]; do
    for rank in "${!pids[@]}"; do
      kill -0 "${pids[rank]}" 2>/dev/null && continue
      end_ms[rank]=$(now_ms)
      wait "${pids[rank]}" 2>/dev/null
      code[rank]=$?
      unset "pids[rank]"
    done
    sleep 0.02
  done
  [ ${#pids[@]} -gt 0 ] || return 0
  for rank in "${!pids[@]}"; do kill -9 "${pids[rank]}"; wait "${pids[rank]}"; done 2>/dev/null
  pids=()
  return 1
} 2>/dev/null  # where bash tells of whoever was killed
begin() { code=() end_ms=() pids=() why=''; }
fail() { why+="${why:+; }$*"; }
has_begun() { grep -q '3 processes' "$1/out0" 2>/dev/null; }
# Until the ranks train; then a random moment of their run.
await_moment() {
  local n
  for ((n = 0; n < 600; ++n)); do has_begun "$1" && break; sleep 0.02; done
  pick "$span_ms"
  sleep "$(in_seconds "$picked")"
}
# The ranks other than $1 ended by themselves within $2 ms of $3, with a message that names it; or their work was done.
check_peers() {
  local rank late=0 last=0 done_codes
  done_codes=$(for rank in 0 1 2; do [ "$rank" = "$1" ] || echo "${code[rank]:-}"; done)
  [ "$done_codes" != $'0\n0' ] || return 0
  for rank in 0 1 2; do
    [ "$rank" != "$1" ] || continue
    [ -n "${code[rank]:-}" ] || { fail "rank $rank did not end"; continue; }
    [ "${code[rank]}" = 1 ] || fail "rank $rank ended with ${code[rank]}"
    last=$((end_ms[rank] - $3))
    [ "$last" -le "$2" ] || fail "rank $rank took $(in_seconds "$last") s"
    [ "$last" -le "$late" ] || late=$last
    grep -q "rank $1" "$dir/err$rank" || fail "rank $rank does not name rank $1: $(tail -n 1 "$dir/err$rank")"
  done
  took=$late
}
# Goes on from the checkpoint and compares the end with the reference: bits, names of files, nothing in TMPDIR, no process.
check_end() {
  local rank
  if [ "${code[*]:-}" != '0 0 0' ]; then
    local before=$why
    begin
    why=$before
    start_ranks "$dir" '' ''
    collect 120000 || fail 'the resumed run did not end'
    [ "${code[*]:-}" = '0 0 0' ] || fail "resuming: exit codes ${code[*]:-}: $(tail -qn 1 "$dir"/err? | tr '\n' ' ')"
  fi
  cmp -s "$dir/run/last.safetensors" "$scratch/reference/run/last.safetensors" || fail 'the last checkpoint has other bits'
  local left
  left=$(diff <(cd "$scratch/reference/run" && find . -type f ! -name 'events.out.*' | sort) <(cd "$dir/run" && find . -type f ! -name 'events.out.*' | sort) | grep '^[<>]')
  [ -z "$left" ] || fail "other files: $(tr '\n' ' ' <<<"$left")"
  left=$(find "$dir/tmp" -mindepth 1)
  [ -z "$left" ] || fail "left behind: $left"
  # A port that is listened on, and a zombie, belong to a process.
  for rank in /proc/[0-9]*; do
    if tr '\0' ' ' 2>/dev/null <"$rank/cmdline" | grep -qF -- "$dir/run"; then fail "process ${rank#/proc/} is left"; fi
  done
}

trial_kill() {
  pick 3
  victim=$picked what="SIGKILL of rank $victim"
  start_ranks "$dir" '' ''
  await_moment "$dir"
  local at
  at=$(now_ms)
  kill -9 "${pids[victim]}" 2>/dev/null
  collect $((within + 5000)) || fail 'a rank hangs'
  [ "${code[*]:-}" = '0 0 0' ] || check_peers "$victim" "$within" "$at"
}
points=(trainer.forward trainer.backward queued_group.before_run
  make_process_group.after_meeting gloo_connect.before_addresses gloo_connect.before_peer
  atomic_file.after_write atomic_file.before_fsync atomic_file.before_rename atomic_file.after_rename)
trial_point() {
  local n
  pick ${#points[@]}
  n=$picked
  pick 3
  victim=$picked
  local most=20
  case ${points[n]} in
    queued*) most=100 ;;
    make* | *addresses) most=1 ;;
    *peer) most=2 ;;  # a connection to each of the others
    atomic*) most=6 victim=0 ;;  # rank 0 saves
  esac
  pick "$most"
  local point=${points[n]}@$((1 + picked))
  what="SIGKILL of rank $victim at $point"
  start_ranks "$dir" "$victim" "$point"
  collect 120000 || fail 'a rank hangs'
  [ "${code[victim]:-}" != 137 ] || check_peers "$victim" "$within" "${end_ms[victim]}"
}
# Who has not been at the store yet is known to the launcher alone.
trial_start() {
  pick 3
  victim=$picked
  local status point
  pick 2
  if [ "$picked" = 0 ]; then point=make_process_group.before_meeting; else point=make_process_group.after_meeting; fi
  what="SIGKILL of rank $victim at $point, under a launcher"
  mkdir -p "$dir/tmp"
  # shellcheck disable=SC2016
  TMPDIR=$dir/tmp timeout 60 "$lockstep" launch --nproc 3 --log-dir "$dir" -- \
    sh -c '[ $RANK != '"$victim"' ] || export LOCKSTEP_FAILPOINT='"$point"'; exec "$@"' sh \
    "$train" "${settings[@]}" --output-dir "$dir/run" --resume auto >"$dir/out0" 2>"$dir/err0" </dev/null
  status=$?
  [ "$status" = 137 ] || fail "the launcher ended with $status"
  grep -q "rank $victim was killed" "$dir/err0" || fail "the launcher does not name rank $victim: $(tail -n 1 "$dir/err0")"
  code=()
}
trial_pause() {
  pick 3
  victim=$picked what="SIGSTOP of rank $victim for 3 s"
  start_ranks "$dir" '' ''
  await_moment "$dir"
  kill -STOP "${pids[victim]}" 2>/dev/null
  sleep 3
  kill -CONT "${pids[victim]}" 2>/dev/null
  collect 120000 || fail 'a rank hangs'
  [ "${code[*]:-}" = '0 0 0' ] || fail "exit codes ${code[*]:-}: $(tail -qn 1 "$dir"/err? | tr '\n' ' ')"
}
trial_stop() {
  pick 3
  victim=$picked what="SIGSTOP of rank $victim for longer than $timeout_s s"
  start_ranks "$dir" '' ''
  await_moment "$dir"
  local at stopped=${pids[victim]} rank
  at=$(now_ms)
  kill -STOP "$stopped" 2>/dev/null
  (
    for ((n = 0; n < (timeout_s + 6) * 20; ++n)); do
      alive=0
      for rank in 0 1 2; do
        [ "$rank" = "$victim" ] || ! kill -0 "${pids[rank]}" 2>/dev/null || alive=1
      done
      [ $alive = 1 ] || break
      sleep 0.05
    done
    kill -CONT "$stopped"
  ) 2>/dev/null &
  local waker=$!
  collect $(((timeout_s + 20) * 1000)) || fail 'a rank hangs'
  wait "$waker"
  [ "${code[*]:-}" != '0 0 0' ] || return  # it had ended before
  check_peers "$victim" $((timeout_s * 1000 + within)) "$at"
  [ "${code[victim]:-0}" != 0 ] || fail "rank $victim ended with 0"
}
make_link() {
  command -v ip >/dev/null || { echo 'ip (iproute2) is not installed'; return 1; }
  ip netns add "$net"a && ip netns add "$net"b && ip link add v0 netns "$net"a type veth peer name v0 netns "$net"b || return 1
  local host n=1
  for host in a b; do
    ip -n "$net$host" link set lo up
    ip -n "$net$host" addr add "10.213.9.$((n++))/24" dev v0
    ip -n "$net$host" link set v0 up
  done
}
trial_link() {
  pick 3
  local down=$((1 + picked)) rank
  what="the cable to rank 0 down for $down s"
  mkdir -p "$dir/tmp"
  meet=$dir/meet
  for rank in 0 1 2; do
    meet='' start_rank "$rank" "$dir" '' ip netns exec "$net$([ "$rank" = 0 ] && echo a || echo b)" env LOCAL_RANK=$((rank == 2)) \
      LOCAL_WORLD_SIZE=$((rank == 0 ? 1 : 2)) MASTER_ADDR=10.213.9.1 MASTER_PORT=29511 LOCKSTEP_TOKEN="soak$seed"
  done
  await_moment "$dir"
  ip -n "$net"a link set v0 down
  sleep "$down"
  ip -n "$net"a link set v0 up
  collect 120000 || fail 'a rank hangs'
  [ "${code[*]:-}" != '0 0 0' ] || return
  # Whoever gives up says so.
  for rank in 0 1 2; do
    [ "${code[rank]:-}" = 1 ] || [ "${code[rank]:-}" = 0 ] || fail "rank $rank ended with ${code[rank]:-}"
  done
}

reference_run() {
  dir=$scratch/reference
  begin
  local at
  start_ranks "$dir" '' ''
  for ((n = 0; n < 3000; ++n)); do has_begun "$dir" && break; sleep 0.01; done
  at=$(now_ms)
  if ! collect 300000 || [ "${code[*]}" != '0 0 0' ]; then
    echo 'soak: a run that nobody disturbs fails:' >&2
    cat "$dir"/err? >&2
    exit 1
  fi
  span_ms=$(($(now_ms) - at + 100))
}
reference_run
echo "a run of three ranks takes $(in_seconds "$span_ms") s"

kinds=(kill kill kill kill point point point point point start pause stop link)
net=soak$$
if [ -n "$only" ] && [ "$only" != link ]; then
  net=
elif ! no_link=$(make_link 2>&1); then
  for name in a b; do ip netns delete "$net$name" 2>/dev/null; done
  net=
  echo "SKIPPED: link: no network namespaces here (${no_link%%$'\n'*})"
  [ "$only" != link ] || exit 0
fi
declare -A count bad slowest
failed=0
for ((trial = 1; trial <= trials; ++trial)); do
  pick ${#kinds[@]}
  kind=${only:-${kinds[picked]}}
  [ "$kind:$net" != link: ] || kind='kill'
  dir=$scratch/trial
  rm -rf "$dir"
  mkdir -p "$dir"
  begin
  took=
  "trial_$kind"
  check_end
  count[$kind]=$((${count[$kind]:-0} + 1))
  if [ -n "$took" ] && [ "$took" -gt "${slowest[$kind]:-0}" ]; then slowest[$kind]=$took; fi
  if [ -n "$why" ]; then
    bad[$kind]=$((${bad[$kind]:-0} + 1)) failed=$((failed + 1))
  fi
  printf '%4d  %-62s %-22s %s\n' "$trial" "$what" "${took:+others out in $(in_seconds "$took") s}" "${why:+FAILED: }${why:-same bits}"
done
printf '\n%-8s %7s %7s %s\n' kind trials failed 'slowest exit'
for kind in "${!count[@]}"; do
  printf '%-8s %7d %7d %s\n' "$kind" "${count[$kind]}" "${bad[$kind]:-0}" "${slowest[$kind]:+$(in_seconds "${slowest[$kind]}") s}"
done
echo "$((trials - failed)) of $trials trials passed; seed $seed"
[ "$failed" -eq 0 ]
