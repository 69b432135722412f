# The programs of a cluster. Each is a folder $STATE/proc/NAME with
#   cmd   its command line, arguments separated by NUL, so that a fault or a heal starts exactly the same again
#   pid   "PID START": START is the start time of /proc/PID/stat; a reused PID is not mistaken for ours
# All of them run in the cluster's network namespace and carry DEVCLUSTER_OF in their environment, by which
# `down` finds them even when every file here is gone.

define() { # NAME COMMAND...
  mkdir -p "$STATE/proc/$1"
  local file=$STATE/proc/$1/cmd; shift
  printf '%s\0' "$@" > "$file"
}

born() { # PID: its start time, nothing if there is no such process (or only its corpse)
  local s; { s=$(<"/proc/$1/stat"); } 2>/dev/null || return 0
  s=${s##*) }; [ "${s%% *}" = Z ] || awk '{print $20}' <<<"$s"
}

pid_of() { # NAME: prints its pid if it lives, else fails
  local pid start
  { read -r pid start < "$STATE/proc/$1/pid"; } 2>/dev/null || return 1
  [ -n "$start" ] && [ "$(born "$pid")" = "$start" ] && echo "$pid"
}

start() { # NAME: nothing if it lives already
  local name=$1 argv pid
  pid_of "$name" >/dev/null && return 0
  mapfile -d '' -t argv < "$STATE/proc/$name/cmd"
  DEVCLUSTER_OF=$STATE setsid nsenter --net="/run/netns/$NETNS" "${argv[@]}" >>"$LOG/$name.log" 2>&1 </dev/null 8>&- &
  pid=$!; disown $pid
  echo "$pid $(born $pid)" > "$STATE/proc/$name/pid"
}

# end PID SIGNAL COMMAND...: signals, waits until COMMAND (does it live?) fails; one that is paused, or deaf for so
# many rounds (END_ROUNDS, or 40: 2 s and more), is killed
end() {
  local pid=$1 signal=$2 i; shift 2
  is_paused "$pid" && signal=KILL
  kill "-$signal" "$pid" 2>/dev/null || true
  for i in $(seq "${END_ROUNDS:-40}"); do "$@" >/dev/null 2>&1 || return 0; sleep 0.05; done
  kill -KILL "$pid" 2>/dev/null || true
  for i in $(seq 100); do "$@" >/dev/null 2>&1 || return 0; sleep 0.05; done
  die "process $pid does not die of SIGKILL; dmesg may say why"
}

is_paused() { case $(awk '{sub(/.*\) /, ""); print $1}' "/proc/$1/stat" 2>/dev/null) in T | t) ;; *) return 1 ;; esac; }

stop() { # NAME [SIGNAL]: nothing if it is gone already
  local pid; pid=$(pid_of "$1") || return 0
  end "$pid" "${2:-TERM}" pid_of "$1"
}

programs() { [ -d "$STATE/proc" ] && ls "$STATE/proc" || true; }
is_up() { [ -e "$STATE/complete" ] && [ -e "/run/netns/$NETNS" ]; }
need_up() { is_up || die "no cluster is up here ($STATE); run 'devcluster up' first"; }

cmd_run() {
  need_up
  [ $# -gt 0 ] || die "run what? e.g. devcluster run kubectl get nodes"
  exec nsenter --net="/run/netns/$NETNS" env KUBECONFIG="$STATE/admin.kubeconfig" PATH="$BIN:$PATH" "$@"
}
