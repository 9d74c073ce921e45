#!/bin/sh
# one_node_slurm.sh FOLDER PORT1 PORT2 COMMAND...: runs COMMAND beside a Slurm of this one machine, which is made in FOLDER
# and ended with it. Returns COMMAND's exit code, or 77 with the reason on its output where Slurm does not run.
folder=$1 port1=$2 port2=$3
shift 3
PATH=$PATH:/usr/sbin:/sbin
skip() { echo "$1"; exit 77; }
for program in slurmctld slurmd srun sinfo; do
  command -v $program > /dev/null || skip "$program is not installed (tools/setup.sh --dev)"
done
[ "$(id -u)" = 0 ] || skip "slurmd needs root"
mkdir -p "$folder/state" "$folder/spool"
export SLURM_CONF="$folder/slurm.conf"
# Nobody but this machine can reach it, and it lives for seconds: it does without authentication.
cat > "$SLURM_CONF" << END
ClusterName=lockstep
SlurmctldHost=$(hostname)(127.0.0.1)
SlurmctldPort=$port1
SlurmdPort=$port2
AuthType=auth/none
CredType=cred/none
SlurmUser=root
SlurmdUser=root
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
MpiDefault=none
SwitchType=switch/none
NodeName=$(hostname) NodeAddr=127.0.0.1 CPUs=1 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
END
slurmctld -D -f "$SLURM_CONF" > "$folder/slurmctld.log" 2>&1 &
controller=$!
slurmd -D -f "$SLURM_CONF" > "$folder/slurmd.log" 2>&1 &
daemon=$!
end_all() {
  kill $daemon $controller 2> /dev/null
  tries=0
  while kill -0 $daemon 2> /dev/null || kill -0 $controller 2> /dev/null; do
    tries=$((tries + 1))
    [ $tries -lt 50 ] || kill -KILL $daemon $controller 2> /dev/null
    sleep 0.1
  done
}
trap end_all EXIT
# A signal does not run sh's trap of EXIT by itself.
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
tries=0
until sinfo --noheader --states=idle 2> /dev/null | grep -q .; do
  tries=$((tries + 1))
  if [ $tries -ge 100 ] || ! kill -0 $controller || ! kill -0 $daemon; then
    skip "Slurm does not start: $(tail -qn 1 "$folder/slurmctld.log" "$folder/slurmd.log" | tr '\n' ' ')"
  fi
  sleep 0.2
done
"$@"
