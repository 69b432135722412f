# etcd, apiserver, controller-manager, scheduler, proxy and DNS; and `up`, which also brings a half-dead cluster back.

kubectl() { in_net "$BIN/kubectl" --kubeconfig "$STATE/admin.kubeconfig" "$@"; }
# kubectl starts in 60 ms of CPU, curl in 5: this one is for polling
api() { in_net curl -sf -m 5 --cacert "$PKI/ca.crt" --cert "$PKI/admin.crt" --key "$PKI/admin.key" "$API$1"; }

make_control_plane() {
  mkdir -p "$PKI"
  make_ca ca /CN=devcluster; make_ca front-proxy-ca /CN=front-proxy; make_token_key
  make_cert front-proxy-client /CN=front-proxy-client '' front-proxy-ca
  make_cert apiserver /CN=kube-apiserver \
    "DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,IP:127.0.0.1,IP:10.96.0.1,IP:$GATEWAY"
  make_identity admin /O=system:masters/CN=admin
  make_identity controller-manager /O=system:masters/CN=system:kube-controller-manager
  make_identity scheduler /CN=system:kube-scheduler

  local gates=(); [ -z "$FEATURES" ] || gates=(--feature-gates="$FEATURES")
  define etcd "$BIN/etcd" --data-dir "$STATE/etcd" --unsafe-no-fsync --listen-client-urls http://127.0.0.1:2379 \
    --advertise-client-urls http://127.0.0.1:2379 --listen-peer-urls http://127.0.0.1:2380 --log-level warn
  define apiserver "$BIN/kube-apiserver" --etcd-servers=http://127.0.0.1:2379 --secure-port=6443 --bind-address=0.0.0.0 \
    --advertise-address="$GATEWAY" --tls-cert-file="$PKI/apiserver.crt" --tls-private-key-file="$PKI/apiserver.key" \
    --client-ca-file="$PKI/ca.crt" --kubelet-client-certificate="$PKI/admin.crt" --kubelet-client-key="$PKI/admin.key" \
    --kubelet-preferred-address-types=InternalIP --service-account-key-file="$PKI/sa.pub" \
    --service-account-signing-key-file="$PKI/sa.key" --service-account-issuer=https://kubernetes.default.svc \
    --service-cluster-ip-range=$SERVICE_CIDR --authorization-mode=Node,RBAC --allow-privileged=true \
    --requestheader-client-ca-file="$PKI/front-proxy-ca.crt" --requestheader-allowed-names=front-proxy-client \
    --requestheader-username-headers=X-Remote-User --requestheader-group-headers=X-Remote-Group \
    --requestheader-extra-headers-prefix=X-Remote-Extra- \
    --proxy-client-cert-file="$PKI/front-proxy-client.crt" --proxy-client-key-file="$PKI/front-proxy-client.key" \
    --runtime-config=scheduling.k8s.io/v1alpha2=true "${gates[@]}"
  define controller-manager "$BIN/kube-controller-manager" --kubeconfig "$STATE/controller-manager.kubeconfig" \
    --service-account-private-key-file="$PKI/sa.key" --root-ca-file="$PKI/ca.crt" --cluster-signing-cert-file="$PKI/ca.crt" \
    --cluster-signing-key-file="$PKI/ca.key" --leader-elect=false --kube-api-qps=1000 --kube-api-burst=2000 "${gates[@]}"
  define scheduler "$BIN/kube-scheduler" --kubeconfig "$STATE/scheduler.kubeconfig" --leader-elect=false --kube-api-qps=1000 --kube-api-burst=2000 "${gates[@]}"
  define proxy "$BIN/kube-proxy" --kubeconfig "$STATE/admin.kubeconfig" --proxy-mode=nftables --cluster-cidr=$POD_CIDR \
    --conntrack-max-per-core=0 --hostname-override=n1
  cat > "$STATE/Corefile" <<C
.:53 {
  bind $GATEWAY
  errors
  kubernetes cluster.local in-addr.arpa {
    kubeconfig $STATE/admin.kubeconfig devcluster
    pods insecure
  }
  cache 2
}
C
  define dns "$BIN/coredns" -conf "$STATE/Corefile"
}

start_control_plane() {
  start etcd; start apiserver
  wait_for kube-apiserver "$LOG/apiserver.log" api /readyz
  start controller-manager; start scheduler; start proxy; start dns
}

# Clean up what an earlier run left that cannot be healed: no namespace (the machine was restarted) or an `up` cut off early.
discard_ruins() {
  if [ ! -e "$STATE" ] && [ ! -e "/run/netns/$NETNS" ]; then return; fi
  is_up && return
  say "a cluster that was cut off while starting, or by a restart of the machine, is left in $STATE: removing it"
  wipe
}

revive() { # NAME: starts it if it died
  pid_of "$1" >/dev/null && return
  say "$1 was not running: starting it"
  case $1 in containerd-*) rm -f "$RUN/${1#containerd-}/containerd.sock" ;; esac
  start "$1"
}

heal() { # start what died since; `up` on a running cluster comes here
  local p
  # first what the others need: kube-controller-manager ends itself when the API server is not healthy within 10 s
  revive etcd; revive apiserver
  wait_for kube-apiserver "$LOG/apiserver.log" api /readyz
  for p in $(programs); do [ "$p" = slurm ] || revive "$p"; done
}

cmd_up() {
  local nodes=${1:-2} began=$SECONDS i jobs=() rc=0
  [[ $nodes =~ ^[0-9]+$ ]] && [ "$nodes" -le 100 ] || die "up how many nodes? a number from 0 to 100 (fakenodes gives thousands)"
  cmd_build
  discard_ruins
  if is_up; then
    heal
  else
    say "starting the control plane (usually 5 s)"
    mkdir -p "$STATE/proc" "$LOG" "$RUN"
    up_network; make_control_plane; start_control_plane
    touch "$STATE/complete"
  fi
  raise_inotify_limit
  local new=(); for i in $(seq "$nodes"); do [ -e "$STATE/proc/kubelet-n$i" ] || new+=("$i"); done
  if [ ${#new[@]} -gt 0 ]; then
    say "starting ${#new[@]} kubelet(s), each with its containerd (usually 10 s)"
    for i in "${new[@]}"; do up_node "$i" & jobs+=($!); done
    for i in "${jobs[@]}"; do wait "$i" || rc=1; done
    [ $rc = 0 ] || die "a node did not start; its log is $LOG/kubelet-nI.log. Run 'devcluster up $nodes' again, or 'devcluster down'"
  fi
  for i in $(seq "$nodes"); do wait_for "node n$i" "$LOG/kubelet-n$i.log" node_comes_up "n$i"; done
  say "up with $nodes nodes after $(duration $((SECONDS - began))): devcluster run kubectl get nodes"
}
