# A node: a containerd and a kubelet. Each kubelet needs a containerd of its own (it kills sandboxes it does not know),
# its own ports, and a cgroup of its own as root.

node_is_ready() { api "/api/v1/nodes/$1" | jq -e '.status.conditions[]? | select(.type == "Ready") | .status == "True"'; }

make_cgroup() { # NAME: in every hierarchy (v1), or with the controllers that kubelet needs (v2)
  local c root=/sys/fs/cgroup
  if [ -e $root/cgroup.controllers ]; then
    # v2: controllers go to children only from a group without processes; in a container that is not so at first
    if ! echo "+cpuset +cpu +memory +pids +io" 2>/dev/null > $root/cgroup.subtree_control; then
      mkdir -p $root/init
      for c in $(cat $root/cgroup.procs); do echo "$c" > $root/init/cgroup.procs 2>/dev/null || true; done
      echo "+cpuset +cpu +memory +pids +io" > $root/cgroup.subtree_control
    fi
    mkdir -p "$root/$1"
    echo "+cpuset +cpu +memory +pids +io" > "$root/$1/cgroup.subtree_control"
    return
  fi
  for c in $root/*/; do [ ! -e "$c/cgroup.procs" ] || mkdir -p "$c/$1"; done
  c=$root/cpuset   # v1: a new cpuset is empty and takes no process
  [ ! -e $c/cpuset.cpus ] || { cat $c/cpuset.cpus > "$c/$1/cpuset.cpus"; cat $c/cpuset.mems > "$c/$1/cpuset.mems"; }
}

node_files() { # INDEX
  local i=$1 n=n$1 run=$RUN/n$1
  cat > "$STATE/$n/containerd.toml" <<T
version = 2
root = "$STATE/$n/containerd"
state = "$run"
[grpc]
  address = "$run/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:dev"
  # nothing below the default oom score may start in a container
  restrict_oom_score_adj = true
  # keeps a pod's network namespace below our folder instead of /run/netns, so that down knows whose it is
  netns_mounts_under_state_dir = true
  enable_cdi = true
  cdi_spec_dirs = ["$STATE/$n/cdi"]
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$STATE/cni"
T
  # A folder of its own for logs: once a minute a kubelet removes those of pods it does not know, its neighbours' too.
  cat > "$STATE/$n/kubelet.yaml" <<Y
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $PKI/ca.crt}}
authorization: {mode: Webhook}
tlsCertFile: $PKI/$n.crt
tlsPrivateKeyFile: $PKI/$n.key
containerRuntimeEndpoint: unix://$run/containerd.sock
cgroupDriver: cgroupfs
failCgroupV1: false
cgroupRoot: /$NAME-$n
enforceNodeAllocatable: []
failSwapOn: false
clusterDNS: [$GATEWAY]
clusterDomain: cluster.local
resolvConf: $STATE/resolv.conf
podLogsDir: $STATE/$n/pod-logs
evictionHard: {nodefs.available: "1%", imagefs.available: "1%", memory.available: "100Mi"}
port: $((10250 + i * 10))
healthzPort: $((10248 + i * 10))
Y
  [ -z "$FEATURES" ] || { echo "featureGates:"; tr ',' '\n' <<<"$FEATURES" | sed 's/=/: /; s/^/  /'; } >> "$STATE/$n/kubelet.yaml"
}

import_image() { ctr -a "$1" -n k8s.io image import "$2" >/dev/null; } # SOCKET TAR

# A kubelet and its containerd hold about ten inotify instances; the usual limit of 128 a user is soon at its end, and then
# they fail in odd ways ("unknown service runtime.v1.RuntimeService"). The limit is the machine's: it stays raised after `down`.
raise_inotify_limit() {
  local limit=/proc/sys/fs/inotify/max_user_instances
  [ "$(cat $limit)" -ge 1024 ] || echo 1024 2>/dev/null >$limit || say "WARNING: $limit cannot be raised from $(cat $limit) to 1024"
}

up_node() { # INDEX
  local n=n$1 run=$RUN/n$1 t
  mkdir -p "$run" "$STATE/$n/cdi"
  make_identity "$n" "/O=system:nodes/CN=system:node:$n" "DNS:$n,IP:127.0.0.1,IP:$GATEWAY"
  node_files "$1"
  make_cgroup "$NAME-$n"
  define "containerd-$n" containerd --config "$STATE/$n/containerd.toml"
  start "containerd-$n"
  wait_for "containerd of $n" "$LOG/containerd-$n.log" ctr -a "$run/containerd.sock" version
  for t in "$CACHE"/images/*.tar "$STATE"/images/*.tar; do [ ! -e "$t" ] || import_image "$run/containerd.sock" "$t"; done
  ctr -a "$run/containerd.sock" -n k8s.io image tag --force localhost/pause:dev registry.k8s.io/pause:3.10 >/dev/null   # what manifests name
  define "kubelet-$n" "$BIN/kubelet" --config "$STATE/$n/kubelet.yaml" --kubeconfig "$STATE/$n.kubeconfig" \
    --root-dir "$STATE/$n/kubelet" --hostname-override="$n" --node-ip="$GATEWAY"
  start "kubelet-$n"
}

# All kubelets of a machine share one device plugin socket (its path is fixed): of two that start in the same instant one
# may die of "address already in use". It is started again, as a supervisor would.
node_comes_up() { start "kubelet-$1"; node_is_ready "$1"; } # NAME

# Images are kept by file name, so that nodes added later have them too; but not those of one node alone (--to).
cmd_load() {
  need_up
  local to='n*' t s jobs=() rc=0
  if [ "${1:-}" = --to ]; then to=${2:-}; shift 2 || die "--to which node?"; fi
  [ $# -gt 0 ] || die "load what? e.g. devcluster load build/image/bascule.tar"
  compgen -G "$RUN/$to/containerd.sock" >/dev/null || die "there is no node '$to'"
  mkdir -p "$STATE/images"
  for t in "$@"; do
    [ -f "$t" ] || die "there is no image archive $t"
    [ "$to" != 'n*' ] || cp --reflink=auto "$t" "$STATE/images/"
    for s in "$RUN"/$to/containerd.sock; do [ ! -S "$s" ] || { import_image "$s" "$t" & jobs+=($!); }; done
  done
  for s in "${jobs[@]}"; do wait "$s" || rc=1; done
  [ $rc = 0 ] || die "an image was not imported"
  say "loaded $* into ${#jobs[@]} node(s)"
}
