# `devcluster down`: nothing stays, also when files, processes or both were killed or lost on the way.
# What is ours is known by five marks: pid files, DEVCLUSTER_OF in the environment, our network namespace, our
# cgroups (containers), and mounts below our folders.

our_processes() {
  local p f
  for f in "$STATE"/proc/*; do [ ! -d "$f" ] || pid_of "${f##*/}" || true; done
  [ ! -e "/run/netns/$NETNS" ] || ip netns pids "$NETNS" || true
  grep -lazsx "DEVCLUSTER_OF=$STATE" /proc/[0-9]*/environ 2>/dev/null | cut -d/ -f3 || true
  for f in /sys/fs/cgroup/*/"$NAME"-n* /sys/fs/cgroup/"$NAME"-n*; do
    [ ! -d "$f" ] || find "$f" -name cgroup.procs -exec cat {} + 2>/dev/null || true
  done
}

# Ourselves and all who called us: `down` may be called from inside the cluster's network (devcluster run bash).
callers() {
  local p=$$
  while [ "$p" -gt 1 ]; do echo "$p"; p=$(awk '{sub(/.*\) /, ""); print $2}' "/proc/$p/stat"); done
}

kill_processes() {
  local round p victims
  # kubelets first, or they start again what dies
  for p in "$STATE"/proc/kubelet-*; do p=$(pid_of "${p##*/}") && kill -KILL "$p" 2>/dev/null; done || true
  for round in $(seq 50); do
    victims=$(our_processes | sort -un | grep -vxFf <(callers) || true)
    [ -n "$victims" ] || return 0
    # a frozen or stopped process dies of SIGKILL too
    kill -KILL $victims 2>/dev/null || true
    sleep 0.1
  done
  say "these processes do not die: $victims"
}

unmount_all() {
  awk -v a="$STATE/" -v b="$RUN/" 'index($2, a) == 1 || index($2, b) == 1 {print $2}' /proc/mounts | sort -r | xargs -r umount -l 2>/dev/null || true
}

remove_cgroups() {
  local f i
  for i in $(seq 20); do
    for f in /sys/fs/cgroup/*/"$NAME"-n* /sys/fs/cgroup/"$NAME"-n*; do
      [ ! -d "$f" ] || find "$f" -depth -type d -exec rmdir {} + 2>/dev/null || true
    done
    compgen -G "/sys/fs/cgroup/*/$NAME-n*" >/dev/null || compgen -G "/sys/fs/cgroup/$NAME-n*" >/dev/null || return 0
    sleep 0.1
  done
  say "cgroups $NAME-n* could not be removed"
}

wipe() {
  kill_processes
  unmount_all
  [ ! -e "/run/netns/$NETNS" ] || ip netns del "$NETNS"
  remove_cgroups
  rm -rf --one-file-system "$STATE" "$RUN"
}

cmd_down() {
  if [ ! -e "$STATE" ] && [ ! -e "/run/netns/$NETNS" ] && [ ! -e "$RUN" ] && [ -z "$(our_processes)" ]; then
    say "nothing is up"; rm -f "/run/$NAME.lock"; return
  fi
  local began=$SECONDS
  wipe
  rm -f "/run/$NAME.lock"
  say "down after $(duration $((SECONDS - began))); the programs stay in $CACHE"
}
