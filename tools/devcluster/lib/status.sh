# `devcluster status`: one line for each program.

version_of() { # NAME
  case $1 in
    apiserver | controller-manager | scheduler | proxy) echo v1.36.3 ;;
    kubelet-*) echo v1.36.3 ;;
    etcd) awk '$1 == "go.etcd.io/etcd/server/v3" || $2 == "go.etcd.io/etcd/server/v3" {print $NF == "indirect" ? $(NF-2) : $NF}' "$HERE/go/etcd/go.mod" | head -1 ;;
    dns) awk '/github.com\/coredns\/coredns / {print $(NF > 2 && $1 == "require" ? 3 : 2)}' "$HERE/go/coredns/go.mod" | head -1 ;;
    containerd-*) dpkg-query -Wf '${Version}' containerd ;;
    slurm*) dpkg-query --admindir="$CACHE/slurm$(head -1 "$STATE/slurm/wanted" 2>/dev/null)/var/lib/dpkg" -Wf '${Version}' slurmctld 2>/dev/null ;;
    *) echo - ;;
  esac
}

status_line() { # NAME PID [VERSION]
  local state=running mem=- age=-
  if [ -z "$2" ]; then state=DEAD
  else
    ! is_paused "$2" || state=PAUSED
    mem=$(awk '/^VmRSS/ {printf "%d MB", $2 / 1024}' "/proc/$2/status" 2>/dev/null)
    age=$(duration "$(ps -o etimes= -p "$2" 2>/dev/null | tr -d ' ' || echo 0)")
  fi
  printf '%-22s %-8s %-8s %-8s %-8s %s\n' "$1" "${2:--}" "$state" "$mem" "$age" "${3:-$(version_of "$1")}"
}

cmd_status() {
  if ! is_up; then
    [ -e "$STATE" ] && { say "a half-started cluster is left in $STATE: 'devcluster up' replaces it, 'devcluster down' removes it"; exit 3; }
    say "no cluster is up ('$NAME', $STATE)"; exit 3
  fi
  local p total=0 kb
  echo "cluster $NAME: state $STATE, network namespace $NETNS"
  printf '%-22s %-8s %-8s %-8s %-8s %s\n' PROGRAM PID STATE MEMORY AGE VERSION
  for p in $(programs); do [ "$p" = slurm ] || status_line "$p" "$(pid_of "$p" || true)"; done
  if [ -e "$STATE/proc/slurm" ]; then
    for p in slurmctld slurmrestd; do status_line $p "$(slurm_pid $p 2>/dev/null || true)"; done
  fi
  for p in $(ip netns pids "$NETNS"); do kb=$(awk '/^Pss:/ {print $2}' "/proc/$p/smaps_rollup" 2>/dev/null || true); total=$((total + ${kb:-0})); done
  echo "all together $((total / 1024)) MB (proportional share, without what runs in pods)"
  if [ -z "$(in_net nft list tables 2>/dev/null | grep devcluster_fault)" ]; then return; fi
  echo "FAULT: slurmrestd is cut off ('devcluster fault slurmrestd start' heals it)"
}
