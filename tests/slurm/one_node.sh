#!/usr/bin/env bash
# A one-node Slurm on loopback for tests, without systemd and without accounting. Root only.
#
#   one_node.sh start FOLDER    bring up munged, slurmctld and slurmd; their files and logs go into FOLDER
#   one_node.sh stop FOLDER     end them and remove the configuration
#
# The node pretends to have CPUS (12) processors, MEMORY (64000) MB and two GPUs. PROCTRACK chooses how Slurm follows the
# processes of a job: linuxproc signals all of them, cgroup only the first of a step, which is what most clusters do.
# Slurm's commands find their configuration in one place only, /etc/slurm/slurm.conf, because the jobs of Snakemake's
# executor drop SLURM_CONF; a configuration that is not ours is never touched.
set -euo pipefail

action=${1:?start or stop}
folder=${2:?the folder for the files of the daemons}
cpus=${CPUS:-12}
memory=${MEMORY:-64000}
proctrack=${PROCTRACK:-linuxproc}
configuration=/etc/slurm
mark="# one-node Slurm of the BNN Atlas tests in"

die() {
  echo "one_node.sh: $*" >&2
  exit 1
}

await() { # await SECONDS COMMAND...: until the command succeeds
  local tenths=$(($1 * 10))
  shift
  until "$@" >/dev/null 2>&1; do
    tenths=$((tenths - 1))
    [ "$tenths" -gt 0 ] || return 1
    sleep 0.1
  done
}

gone() { ! grep -qs '^State:[[:space:]]*[^Z]' "/proc/$1/status"; } # a process that nobody waits for stays as a zombie

idle() { sinfo --noheader --format=%T | grep -qx idle; }

up() { sinfo --noheader --format=%T | grep -qE 'idle|mixed|alloc'; }

end_process() { # end_process PIDFILE: TERM, then KILL
  local pid
  [ -s "$1" ] || return 0
  pid=$(cat "$1")
  kill "$pid" 2>/dev/null || true
  await 5 gone "$pid" || kill -KILL "$pid" 2>/dev/null || true
  rm -f "$1"
}

stop() { # stop FOLDER
  if ours && [ -s "$1/slurmctld.pid" ]; then
    timeout 5 squeue --noheader --format=%A 2>/dev/null | xargs --no-run-if-empty timeout 5 scancel --signal=KILL --full || true
    await 5 idle || true
  fi
  end_process "$1/slurmd.pid"
  end_process "$1/slurmctld.pid"
  end_process "$1/munged.pid"
  if ours; then
    rm -f "$configuration/slurm.conf" "$configuration/gres.conf" "$configuration/cgroup.conf"
  fi
}

ours() { [ -e "$configuration/slurm.conf" ] && head -n 1 "$configuration/slurm.conf" | grep -q "^$mark"; }

start() {
  local host
  host=$(hostname -s)
  install -d -m 755 "$folder" "$folder"/{state,spool,log}

  install -d -m 755 -o munge -g munge "$folder/munge"
  dd if=/dev/urandom bs=128 count=1 of="$folder/munge/munge.key" status=none
  chown munge:munge "$folder/munge/munge.key"
  chmod 400 "$folder/munge/munge.key"
  setpriv --reuid=munge --regid=munge --clear-groups munged --force --socket="$folder/munge/socket" \
    --key-file="$folder/munge/munge.key" --pid-file="$folder/munge/munged.pid" --seed-file="$folder/munge/munged.seed" \
    --log-file="$folder/munge/munged.log"
  ln -sf munge/munged.pid "$folder/munged.pid"

  install -d -m 755 "$configuration"
  cat >"$configuration/slurm.conf" <<CONF
$mark $folder
ClusterName=onenode
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=16817
SlurmdPort=16818
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge/socket
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/$proctrack
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
GresTypes=gpu
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,bf_interval=2
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/log/slurmctld.log
SlurmdLogFile=$folder/log/slurmd.log
SlurmdParameters=config_overrides
MinJobAge=7200
ReturnToService=2
KillWait=10
NodeName=$host NodeAddr=127.0.0.1 CPUs=$cpus RealMemory=$memory Gres=gpu:2 State=UNKNOWN
PartitionName=main Nodes=$host Default=YES MaxTime=INFINITE DefaultTime=60 State=UP
CONF
  echo "NodeName=$host Name=gpu File=/dev/null,/dev/zero" >"$configuration/gres.conf"
  echo "CgroupAutomount=no" >"$configuration/cgroup.conf"

  slurmctld
  slurmd
  await 20 up ||
    die "the node did not come up; see $folder/log"
  sinfo --Node --long
}

[ "$(id -u)" -eq 0 ] || die "only root can start the daemons of Slurm"
for tool in munged slurmctld slurmd sbatch setpriv; do
  command -v "$tool" >/dev/null || die "$tool is missing: apt-get install munge slurmctld slurmd slurm-client"
done
if [ -e "$configuration/slurm.conf" ] && ! ours; then
  die "$configuration/slurm.conf belongs to another Slurm; nothing was changed"
fi

case $action in
  start)
    if ours; then # of a run that was killed
      stop "$(head -n 1 "$configuration/slurm.conf" | sed "s|^$mark ||")"
    fi
    trap 'stop "$folder"' EXIT # if it does not come up
    start
    trap - EXIT
    ;;
  stop) stop "$folder" ;;
  *) die "unknown action $action: start or stop" ;;
esac
