#!/usr/bin/env bash
# bench/shaped_link.sh RATE -- program args...
#
# Runs the program as two ranks on two "machines" of this one: network namespaces joined by a veth pair that lets RATE
# through in each direction (100mbit, 1gbit, 10gbit: token buckets, tc tbf). The ranks find RANK, WORLD_SIZE, LOCAL_RANK,
# MASTER_ADDR, MASTER_PORT and LOCKSTEP_TOKEN set, as under any launcher, and GLOO_SOCKET_IFNAME for PyTorch. Rank 0 has
# the console; rank 1's output is shown when it fails. When one fails, the other has ten seconds to notice by itself. The
# namespaces are gone at the end, however it ends.
#
# Needs root and the tools ip and tc (iproute2). Where namespaces may not be made, a program of Lockstep's runs over an
# emulated link of that rate instead, and a line says so.
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin  # where tc is
usage() { sed -n '2,11s/^# \{0,1\}//p' "$0" >&2; exit 2; }
[ $# -ge 3 ] && [ "$2" = -- ] || usage
rate=$1
shift 2
[[ $rate =~ ^[0-9]+(\.[0-9]+)?(kbit|mbit|gbit)$ && $rate =~ [1-9] ]] || { echo "shaped_link: wanted a rate such as 1gbit, got '$rate'" >&2; exit 2; }

id=ls$$
hosts=("${id}a" "${id}b")
addresses=(10.213.7.1 10.213.7.2)
log=$(mktemp)
pids=() watch=''
clean_up() {
  for pid in "${pids[@]}" $watch; do
    kill -9 "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true  # so that bash does not tell of it
  done
  for host in "${hosts[@]}"; do ip netns delete "$host" 2>/dev/null || true; done
  rm -f "$log"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

make_link() {
  command -v ip >/dev/null && command -v tc >/dev/null || { echo "ip and tc (iproute2) are not installed"; return 1; }
  ip netns add "${hosts[0]}" && ip netns add "${hosts[1]}" || return 1
  ip link add "${id}0" netns "${hosts[0]}" type veth peer name "${id}1" netns "${hosts[1]}" || return 1
  local i
  for i in 0 1; do
    ip -n "${hosts[i]}" link set lo up
    ip -n "${hosts[i]}" addr add "${addresses[i]}/24" dev "$id$i"
    ip -n "${hosts[i]}" link set "$id$i" up
    # A burst of 1 MB is 8 ms of 1 Gbit/s: small beside a step, large enough for 10 Gbit/s.
    tc -n "${hosts[i]}" qdisc add dev "$id$i" root tbf rate "$rate" burst 1mb latency 200ms || return 1
  done
}

if ! why=$(make_link 2>&1); then
  echo "shaped_link: no network namespaces here (${why%%$'\n'*}); the link of $rate is emulated" >&2
  # Not exec: the trap removes what was half made.
  "$@" --emulated-link "$rate"
  exit
fi

token=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
run_rank() {
  local rank=$1
  shift
  exec ip netns exec "${hosts[rank]}" env RANK="$rank" WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 \
    MASTER_ADDR="${addresses[0]}" MASTER_PORT=29500 LOCKSTEP_TOKEN="$token" GLOO_SOCKET_IFNAME="$id$rank" \
    OMP_NUM_THREADS="${OMP_NUM_THREADS:-$((($(nproc) + 1) / 2))}" "$@"
}
run_rank 1 "$@" >"$log" 2>&1 </dev/null &
pids+=($!)
run_rank 0 "$@" &
pids+=($!)
status=0  # of the first that fails
wait -n "${pids[@]}" || status=$?
if [ "$status" -ne 0 ]; then
  (sleep 10; kill -9 "${pids[@]}") >/dev/null 2>&1 &
  watch=$!
fi
zero=0 other=0
wait "${pids[1]}" || zero=$?
wait "${pids[0]}" || other=$?
pids=()
[ "$status" -ne 0 ] || status=$zero
if [ "$other" -ne 0 ]; then
  echo "shaped_link: rank 1 ended with exit code $other:" >&2
  tail -n 20 "$log" >&2
  [ "$status" -ne 0 ] || status=$other
fi
exit "$status"
