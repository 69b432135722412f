# Words to the user, progress of long steps, waiting. Everything is said on stderr, so stdout stays usable.

say() { echo "devcluster: $*" >&2; }
die() { say "$*"; exit 1; }

need_root() { [ "$(id -u)" = 0 ] || die "needs root: it makes network namespaces, mounts and cgroups"; }

# Two `up` of one cluster at a time would tread on each other. Descriptor 8 holds the lock; daemons do not get it.
only_one_at_a_time() {
  exec 8>"/run/$NAME.lock"
  flock -n 8 || { say "another devcluster command is at work on '$NAME', waiting for it"; flock 8; }
}

in_net() { nsenter --net="/run/netns/$NETNS" "$@"; }

duration() { if [ "$1" -ge 60 ]; then printf '%dm%02ds' $(($1 / 60)) $(($1 % 60)); else printf '%ds' "$1"; fi; }

# long_step WHAT USUALLY LOGFILE COMMAND...: run with its output in LOGFILE, saying now and then that it still runs.
# The command gets a process group of its own, so that an interrupt ends all of it.
long_step() {
  local what=$1 usually=$2 log=$3 pid began=$SECONDS said=$SECONDS rc=0; shift 3
  say "$what ... (usually $usually; log $log)"
  set -m; ("$@") >"$log" 2>&1 </dev/null 7>&- 8>&- & pid=$!; set +m
  trap 'kill -TERM -- -'$pid' 2>/dev/null; say "interrupted; run the same command again, it goes on where it was"; exit 130' INT TERM
  while kill -0 $pid 2>/dev/null; do
    sleep 0.5
    if [ $((SECONDS - said)) -ge 30 ]; then said=$SECONDS; say "  $what: $(duration $((SECONDS - began))) so far"; fi
  done
  wait $pid || rc=$?
  trap - INT TERM
  if [ $rc != 0 ]; then
    tail -n 20 "$log" | sed 's/^/  | /' >&2
    die "$what failed; the whole log is $log. Once the cause is gone run the same command again: finished steps are kept"
  fi
  say "  done in $(duration $((SECONDS - began)))"
}

# wait_for WHAT LOGFILE COMMAND...: poll until COMMAND succeeds. One generous limit for all: it ends a wait for what never
# comes, and is no test of how fast the machine is.
wait_for() {
  local limit=$((SECONDS + 180)) what=$1 log=$2; shift 2
  until "$@" >/dev/null 2>&1; do
    if [ $SECONDS -ge "$limit" ]; then
      [ -s "$log" ] && tail -n 8 "$log" | sed 's/^/  | /' >&2
      die "$what did not come up; its log is $log. 'devcluster down' cleans up"
    fi
    sleep 0.05
  done
}
