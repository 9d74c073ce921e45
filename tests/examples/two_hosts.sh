#!/bin/sh
# two_hosts.sh FOLDER COMMAND0 COMMAND1: runs two shell commands, each as on a host of its own: in network namespaces that
# are joined by a cable, as 10.77.0.1 and 10.77.0.2 on eth0, with FOLDER/hosts0 and hosts1 as /etc/hosts, if they are there.
# What they write is in FOLDER/out0, err0, out1, err1. The namespaces have no names: they end with their processes. Returns
# the first exit code that is not 0, or 77 with the reason on its output where namespaces cannot be made.
PATH=$PATH:/usr/sbin:/sbin
if [ -z "$INSIDE" ]; then
  command -v ip > /dev/null || { echo "ip is not installed (package iproute2)"; exit 77; }
  # Root of a namespace of one's own may make networks; where that is forbidden, root itself may.
  for way in "--user --map-root-user" ""; do
    unshare $way --net --mount ip link add eth0 type veth peer name eth1 2> /dev/null || continue
    INSIDE=yes exec unshare $way --net --mount "$0" "$@"
  done
  echo "network namespaces cannot be made here (root is needed)"
  exit 77
fi
folder=$1
ip link set lo up
unshare --net --mount sh -c '
  touch "$1/there"
  [ ! -e "$1/hosts1" ] || mount --bind "$1/hosts1" /etc/hosts
  # $PPID is the first host.
  until ip addr add 10.77.0.2/24 dev eth0 || ! kill -0 $PPID; do sleep 0.05; done 2> /dev/null
  ip link set lo up && ip link set eth0 up && touch "$1/up"
  (eval "$2")
  code=$?
  # The cable goes with this namespace.
  until [ -e "$1/done" ] || ! kill -0 $PPID 2> /dev/null; do sleep 0.05; done
  exit $code' - "$folder" "$3" > "$folder/out1" 2> "$folder/err1" &
other=$!
# Until the second host has made this file, or has ended, which its file of errors explains.
await() {
  until [ -e "$folder/$1" ]; do
    kill -0 $other 2> /dev/null || { cat "$folder/err1" >&2; exit 1; }
    sleep 0.05
  done
}
await there
[ ! -e "$folder/hosts0" ] || mount --bind "$folder/hosts0" /etc/hosts
ip link add eth0 type veth peer name eth0 netns $other
ip addr add 10.77.0.1/24 dev eth0
ip link set eth0 up
await up
sh -c "$2" > "$folder/out0" 2> "$folder/err0"
code=$?
touch "$folder/done"
wait $other
other_code=$?
[ $code = 0 ] && exit $other_code
exit $code
