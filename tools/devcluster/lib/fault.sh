# Faults on purpose. Each is quick and may be repeated; `start` (or `resume`) undoes any of them.

fault_help() {
  cat <<'H'
devcluster fault WHAT ACTION
  slurmctld  stop | kill | start | pause | resume
  slurmrestd stop | kill | start | pause | resume | cut      cut: port 6820 swallows every packet; start or resume heals it
  slurm clock SECONDS | true                                 both see a clock that is so many seconds ahead; at once, but they
                                                             are restarted where a clock of their own begins or ends
  apiserver  stop | kill | start | restart | pause | resume  (also etcd, controller-manager, scheduler, proxy, dns)
  kubelet N  stop | kill | start | pause | resume            kubelet of node nN
  etcd compact                                               forget old revisions; watches that resume from them get 410 Gone
H
}

stop_slurm_daemon() { # DAEMON SIGNAL: time enough to end by itself, for slurmctld saves its state then; a minute and more
  local pid; pid=$(slurm_pid "$1" 2>/dev/null) || return 0
  END_ROUNDS=1200 end "$pid" "$2" slurm_pid "$1"
}

cut_rest() { # no reset, no refusal: silence, as when a switch dies
  in_net nft -f - <<'N'
table inet devcluster_fault
delete table inet devcluster_fault
table inet devcluster_fault {
  chain in { type filter hook input priority -300; tcp dport 6820 drop; tcp sport 6820 drop; }
  chain out { type filter hook output priority -300; tcp sport 6820 drop; }
  chain through { type filter hook forward priority -300; tcp dport 6820 drop; tcp sport 6820 drop; }
}
N
}
uncut_rest() { in_net nft delete table inet devcluster_fault 2>/dev/null || true; }

fault_slurm() { # DAEMON ACTION
  box_pid >/dev/null 2>&1 || die "Slurm is not up; run 'devcluster slurm' first"
  local pid
  case $2 in
    stop) stop_slurm_daemon "$1" TERM ;;
    kill) stop_slurm_daemon "$1" KILL ;;
    start)
      [ "$1" = slurmctld ] || uncut_rest
      pid=$(slurm_pid "$1" 2>/dev/null) && kill -CONT "$pid"
      "start_$1" ;;
    pause) pid=$(slurm_pid "$1") || die "$1 does not run"; kill -STOP "$pid" ;;
    resume) [ "$1" = slurmctld ] || uncut_rest; pid=$(slurm_pid "$1") || die "$1 does not run"; kill -CONT "$pid" ;;
    cut) [ "$1" = slurmrestd ] || die "only slurmrestd can be cut"; cut_rest ;;
    *) fault_help >&2; exit 2 ;;
  esac
}

# slurmctld and slurmrestd are one machine's: credentials between them hold for a minute.
step_clock() { # SECONDS | true
  local file=$STATE/slurm/clock lib
  box_pid >/dev/null 2>&1 || die "Slurm is not up; run 'devcluster slurm' first"
  if [ "$1" = true ]; then
    [ -e "$file" ] || return 0
    rm "$file"
  else
    [[ $1 =~ ^[+-]?[0-9]+$ ]] || die "how many seconds ahead? not '$1'"
    ! slurm_pid slurmd >/dev/null 2>&1 || die "the slurmds would keep the machine's clock"
    lib=$(ls /usr/lib/*/faketime/libfaketimeMT.so.1) || die "libfaketime is not installed; see tools/deps.txt"
    [ -e "$STATE/slurm/libfaketime.so" ] || cp "$lib" "$STATE/slurm/libfaketime.so"
    printf '%+d\n' "$1" > "$file.new"   # read at any moment, so never half written
    local had=; [ ! -e "$file" ] || had=1
    mv "$file.new" "$file"
    [ -z "$had" ] || return 0
  fi
  stop_slurm_daemon slurmrestd TERM; stop_slurm_daemon slurmctld TERM
  start_slurmctld; start_slurmrestd
}

fault_program() { # NAME ACTION
  [ -e "$STATE/proc/$1/cmd" ] || die "there is no $1 in this cluster"
  local pid
  case $2 in
    stop) stop "$1" ;;
    kill) stop "$1" KILL ;;
    start) pid=$(pid_of "$1") && kill -CONT "$pid"; start "$1" ;;
    restart) stop "$1"; start "$1" ;;
    pause) pid=$(pid_of "$1") || die "$1 does not run"; kill -STOP "$pid" ;;
    resume) pid=$(pid_of "$1") || die "$1 does not run"; kill -CONT "$pid" ;;
    *) fault_help >&2; exit 2 ;;
  esac
  case $1-$2 in apiserver-start | apiserver-restart) wait_for kube-apiserver "$LOG/apiserver.log" api /readyz ;; esac
}

compact_etcd() {
  local e=http://127.0.0.1:2379/v3 revision
  revision=$(in_net curl -sf -m 5 $e/maintenance/status -d '{}' | jq -r .header.revision) || die "etcd does not answer"
  in_net curl -sf -m 10 $e/kv/compaction -d "{\"revision\":\"$revision\",\"physical\":true}" >/dev/null ||
    say "revision $revision is compacted already"
  say "etcd compacted at revision $revision; the apiserver still serves newer events from its own cache until it is restarted"
}

cmd_fault() {
  need_up
  case "${1:-} ${2:-}" in
    "slurmctld "?* | "slurmrestd "?*) fault_slurm "$1" "$2" ;;
    "slurm clock") step_clock "${3:-}" ;;
    "etcd compact") compact_etcd ;;
    "kubelet "[0-9]*) fault_program "kubelet-n$2" "${3:-}" ;;
    "kubelet "n[0-9]*) fault_program "kubelet-$2" "${3:-}" ;;
    "apiserver "?* | "etcd "?* | "controller-manager "?* | "scheduler "?* | "proxy "?* | "dns "?*) fault_program "$1" "$2" ;;
    *) fault_help >&2; exit 2 ;;
  esac
}
