# Slurm: slurmctld and slurmrestd in a "box", a container of our own: mount, pid, uts and ipc namespaces over a Debian tree.
# The tree is shared and only read; all that Slurm writes is $STATE/slurm, seen inside as /run/slurm. When the box's
# first process dies the kernel ends every daemon in it, a hung slurmctld included.
# slurmrestd: http://127.0.0.1:6820 in the cluster's network, http://$GATEWAY:6820 from pods.

box_pid() { local p; p=$(pid_of slurm) && pgrep -P "$p" | head -1 | grep .; }
slurm_pid() { pgrep --ns "$(box_pid)" --nslist pid -x "$1" | head -1 | grep .; } # slurmctld|slurmrestd: its pid outside

in_box() {
  nsenter -t "$(box_pid)" -m -p -u -i -n -r -w env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM="${TERM:-dumb}" \
    SLURM_CONF=/run/slurm/slurm.conf $(own_clock) "$@" 8>&-
}

# What runs in the box has the machine's clock, or (`fault slurm clock`) one of its own: libfaketime's, which reads at each
# look in $STATE/slurm/clock how many seconds it is ahead. Only civil time; files keep theirs.
own_clock() {
  [ ! -e "$STATE/slurm/clock" ] || echo LD_PRELOAD=/run/slurm/libfaketime.so FAKETIME_TIMESTAMP_FILE=/run/slurm/clock FAKETIME_NO_CACHE=1 \
    FAKETIME_DONT_FAKE_MONOTONIC=1 NO_FAKE_STAT=1
}

cmd_slurmexec() {
  need_up; box_pid >/dev/null || die "Slurm is not up; run 'devcluster slurm' first"
  [ $# -gt 0 ] || die "slurmexec what? e.g. devcluster slurmexec squeue"
  in_box "$@"
}

slurm_conf() { # VERSION SLURMDS LINE...
  local version=$1 slurmds=$2 cores memory; shift 2
  cat <<C
ClusterName=devcluster
SlurmctldHost=slurm(127.0.0.1)
SlurmUser=slurm
AuthType=auth/slurm
CredType=auth/slurm
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=/run/slurm/jwt.key
StateSaveLocation=/run/slurm/state
SlurmctldPidFile=/run/slurm/slurmctld.pid
SlurmctldLogFile=/run/slurm/log/slurmctld.log
SlurmdSpoolDir=/run/slurm/spool-%n
SlurmdPidFile=/run/slurm/slurmd-%n.pid
SlurmdLogFile=/run/slurm/log/slurmd-%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MailProg=/bin/true
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
MCSPlugin=mcs/label
MCSParameters=ondemand,ondemandselect
ReconfigFlags=KeepPartInfo
ReturnToService=2
MessageTimeout=5
MinJobAge=60
MaxNodeCount=20000
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1,default_queue_depth=2000,partition_job_depth=2000
C
  if [ "$slurmds" -gt 0 ]; then
    cores=$(nproc) memory=$(awk '/^MemTotal/ {print int($2 / 1024) - 1024}' /proc/meminfo)
    echo "NodeName=n[1-$slurmds] NodeAddr=127.0.0.1 NodeHostname=slurm Port=[17001-$((17000 + slurmds))] CPUs=$cores RealMemory=$memory Gres=gpu:h100:8"
  fi
  echo "PartitionName=slurm-bridge Nodes=ALL Default=YES MaxTime=INFINITE State=UP"
  [ $# = 0 ] || printf '%s\n' "$@"
}

slurm_files() { # VERSION SLURMDS LINE...
  local e=$STATE/slurm uid g i
  rm -rf "$e"; mkdir -p "$e"/{state,log,gpu}
  for g in 0 1 2 3 4 5 6 7; do : > "$e/gpu/$g"; done   # plain files do as GPU devices
  # Every name must resolve, or fail, at once: slurmctld looks names up with its locks held.
  { echo "127.0.0.1 localhost slurm"; for i in $(seq 100); do echo "$GATEWAY n$i"; done; } > "$e/hosts"
  printf 'nameserver %s\noptions timeout:1 attempts:1\n' "$GATEWAY" > "$e/resolv.conf"
  slurm_conf "$@" > "$e/slurm.conf"
  echo CgroupPlugin=disabled > "$e/cgroup.conf"
  printf 'NodeName=%s[1-20000] Name=gpu Type=h100 File=/run/slurm/gpu/[0-7]\n' n f > "$e/gres.conf"
  head -c 64 /dev/urandom > "$e/slurm.key"; head -c 32 /dev/urandom > "$e/jwt.key"
  uid=$(awk -F: '$1 == "slurm" {print $3}' "$CACHE/slurm$1/etc/passwd")
  chown -R "$uid" "$e/slurm.key" "$e/jwt.key" "$e/state" "$e/log"; chmod 600 "$e"/*.key; chmod 1777 "$e/log"
}

start_box() { # TREE
  local tree=$1
  rm -f "$STATE/slurm/ready"
  # shellcheck disable=SC2016  # expanded inside
  define slurm unshare --mount --pid --uts --ipc --fork --kill-child=KILL --propagation private bash -c '
    set -e
    hostname slurm; mount --bind "$1" "$1"; mount -t proc proc "$1/proc"; mount --rbind /dev "$1/dev"; mount -t tmpfs tmpfs "$1/dev/shm"
    mount -t tmpfs tmpfs "$1/run"; mount -t tmpfs tmpfs "$1/tmp"; chmod 1777 "$1/tmp"
    mkdir -p "$1/run/slurm" "$1/run/slurmctld"; mount --bind "$2" "$1/run/slurm"
    chown slurm "$1/run/slurmctld" 2>/dev/null || chroot "$1" chown slurm /run/slurmctld
    mount --bind "$2/hosts" "$1/etc/hosts"; mount --bind "$2/resolv.conf" "$1/etc/resolv.conf"
    exec chroot "$1" bash -c "trap : HUP INT TERM; touch /run/slurm/ready; while :; do sleep 600 & wait; done"' _ "$tree" "$STATE/slurm"
  start slurm
  wait_for "Slurm's box" "$LOG/slurm.log" test -e "$STATE/slurm/ready"
}

start_slurmctld() { # [-c]
  slurm_pid slurmctld >/dev/null 2>&1 && return 0
  # a pid file of a killed one: its number may be anybody's in the box by now, and slurmctld kills what it finds there
  rm -f "$STATE/slurm/slurmctld.pid"
  in_box sh -c 'mkdir -p /run/slurmctld; chown slurm /run/slurmctld; slurmctld "$@"' _ "$@" >>"$LOG/slurm.log" 2>&1 </dev/null
  wait_for slurmctld "$STATE/slurm/log/slurmctld.log" in_box sh -c 'scontrol ping | grep -q UP'
}

# It refuses to run as root or SlurmUser; SLURM_JWT must be set or it answers 401 to everything.
start_slurmrestd() {
  slurm_pid slurmrestd >/dev/null 2>&1 && return 0
  # the clock last: what libfaketime makes as root nobody else may use
  in_box env -u LD_PRELOAD bash -c "cd /; SLURM_JWT=daemon MALLOC_ARENA_MAX=1 SLURMRESTD_JSON=compact setsid setpriv --reuid 65534 --regid 65534 \
    --clear-groups env $(own_clock) slurmrestd -a rest_auth/jwt -s openapi/slurmctld 127.0.0.1:6820 $GATEWAY:6820 >>/run/slurm/log/slurmrestd.log 2>&1 </dev/null &" >/dev/null 2>&1
  wait_for slurmrestd "$STATE/slurm/log/slurmrestd.log" in_net bash -c '</dev/tcp/127.0.0.1/6820'
}

start_slurmds() { # COUNT
  local i
  for i in $(seq "$1"); do
    in_box sh -c 'kill -0 $(cat /run/slurm/slurmd-$0.pid 2>/dev/null) 2>/dev/null || slurmd -N $0' "n$i" >>"$LOG/slurm.log" 2>&1 </dev/null
  done
  # slurmd forks before it can fail: only the node's state tells
  [ "$1" = 0 ] || wait_for "slurmd" "$STATE/slurm/log/slurmd-n1.log" in_box sh -c "[ \"\$(sinfo -h -t idle,mixed,allocated -o %D)\" = $1 ]"
}

stop_slurm() { stop slurm KILL; rm -rf "$STATE/slurm" "$STATE/proc/slurm"; }

cmd_slurm() {
  local version=26 slurmds=0 want fresh=
  need_up
  while [ $# -gt 0 ]; do
    case $1 in
      --version) version=${2:-}; shift 2 || die "--version 26 or 24" ;;
      --slurmd) slurmds=${2:-}; shift 2 || die "--slurmd how many?" ;;
      --stop) stop_slurm; say "Slurm is gone"; return ;;
      -*) die "slurm knows --version, --slurmd and --stop, not '$1'" ;;
      *=*) break ;;
      *) die "'$1' is not a line of slurm.conf (NAME=VALUE)" ;;
    esac
  done
  [[ $slurmds =~ ^[0-9]+$ ]] || die "--slurmd how many? not '$slurmds'"
  case $version in 24 | 26) ;; *) die "Slurm 26 (26.05) and 24 (24.11) are known, not '$version'" ;; esac
  [ -d "$CACHE/slurm$version" ] || cmd_build "slurm$version"
  want=$(printf '%s\n' "$version" "$slurmds" "$@")
  if [ -e "$STATE/slurm/wanted" ] && [ "$(cat "$STATE/slurm/wanted")" = "$want" ]; then
    box_pid >/dev/null 2>&1 || { say "Slurm was not running: starting it with its saved state"; start_box "$CACHE/slurm$version"; }
  else
    stop_slurm
    slurm_files "$version" "$slurmds" "$@"
    start_box "$CACHE/slurm$version"
    fresh=-c
  fi
  start_slurmctld $fresh; start_slurmds "$slurmds"; start_slurmrestd
  echo "$want" > "$STATE/slurm/wanted"
  say "Slurm $(in_box slurmctld -V | cut -d' ' -f2) is up: http://127.0.0.1:6820 in the cluster's network, http://$GATEWAY:6820 from pods"
}

cmd_token() { # HS256 over {exp, iat, sun}; the key is the raw bytes of jwt.key
  [ -e "$STATE/slurm/jwt.key" ] || die "Slurm is not up; run 'devcluster slurm' first"
  [ $# -gt 0 ] || die "a token for whom? e.g. devcluster token slurm 3600"
  local key now body; key=$(od -An -vtx1 "$STATE/slurm/jwt.key" | tr -d ' \n'); now=$(date +%s)
  b64() { openssl base64 -A | tr '+/' '-_' | tr -d '='; }
  body=$(printf '{"alg":"HS256","typ":"JWT"}' | b64).$(printf '{"exp":%d,"iat":%d,"sun":"%s"}' $((now + ${2:-3600})) "$now" "$1" | b64)
  echo "$body.$(printf %s "$body" | openssl dgst -sha256 -mac HMAC -macopt "hexkey:$key" -binary | b64)"
}
