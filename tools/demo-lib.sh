# What tools/demo and tools/demo-operator share: words to the reader, commands in the cluster, waiting.
# Sourced with the repository as current directory; the sourcing script sets $ns, the namespace of what it installs.

devcluster=tools/devcluster/devcluster
state=${DEVCLUSTER_STATE:-/var/tmp/${DEVCLUSTER_NAME:-devcluster}}
if [ -t 1 ]; then bold=$(tput bold 2>/dev/null || true) plain=$(tput sgr0 2>/dev/null || true); else bold='' plain=''; fi

title() { printf '\n%s== %s%s\n' "$bold" "$*" "$plain"; }
say() { echo "demo: $*"; }
die() { echo "demo: $*" >&2; exit 1; }
kubectl() { $devcluster run kubectl "$@"; }
# Helm says at length that it follows our links.
helm() { $devcluster run helm "$@" 2> >(grep -v '^walk.go' >&2); }
show() { echo "\$ $*"; "$@" || true; }   # a command the reader could type, and its output

# until_true WHAT COMMAND...: says every 10 s that it still waits. The limit is the same for all, and generous: it is
# there for what never comes, not for a slow machine.
until_true() {
  local limit=$((SECONDS + ${DEMO_LIMIT:-300})) said=$SECONDS what=$1; shift
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $limit ] || return 1
    if [ $((SECONDS - said)) -ge 10 ]; then said=$SECONDS; say "waiting: $what"; fi
    sleep 0.2
  done
}

deployment_is_ready() { kubectl -n "$1" rollout status "$2" --timeout=1s; } # NAMESPACE DEPLOYMENT
deployments_are_ready() { # NAMESPACE [SELECTOR...]
  local d namespace=$1; shift
  for d in $(kubectl -n "$namespace" get deployments -o name "$@"); do
    until_true "$d is ready" deployment_is_ready "$namespace" "$d" || {
      kubectl -n "$namespace" get pods -o wide; kubectl -n "$namespace" describe "$d" | tail -20
      kubectl -n "$namespace" logs "$d" --tail=20 || true
      die "$d did not become ready; its pods and log are above"
    }
    say "$d is ready"
  done
}
