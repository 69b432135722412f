# One network namespace holds it all: apiserver on 127.0.0.1:6443, the pod bridge cni0 with $GATEWAY, services by kube-proxy.

up_network() {
  # a handle on the host's network for those who call us from inside (/proc/1 is not readable everywhere)
  touch "$RUN/host-net"; mount --bind /proc/self/ns/net "$RUN/host-net"
  ip netns add "$NETNS"
  in_net ip link set lo up
  in_net sysctl -qw net.ipv4.ip_forward=1
  # the bridge exists from the start, so that DNS and slurmrestd can listen on it before the first pod
  in_net ip link add cni0 type bridge
  in_net ip addr add "$GATEWAY/16" dev cni0
  in_net ip link set cni0 up
  in_net ip route add default via "$GATEWAY" dev cni0 2>/dev/null || true
  hairpin
  mkdir -p "$STATE/cni"
  cat > "$STATE/cni/10-bridge.conflist" <<J
{"cniVersion":"1.0.0","name":"$NAME","plugins":[
 {"type":"bridge","bridge":"cni0","isGateway":true,"ipMasq":false,"hairpinMode":true,
  "ipam":{"type":"host-local","dataDir":"$STATE/ipam","ranges":[[{"subnet":"$POD_CIDR","rangeEnd":"${GATEWAY%.*.*}.3.255"}]],"routes":[{"dst":"0.0.0.0/0"}]}},
 {"type":"portmap","capabilities":{"portMappings":true},"backend":"nftables"}]}
J
  echo "nameserver $GATEWAY" > "$STATE/resolv.conf"
}

# A pod that asks its own Service: kube-proxy masquerades that for the pods of its node alone, and one proxy serves all our nodes.
# For the thousand addresses that pods are given.
hairpin() {
  local a b own=
  for a in 0 1 2 3; do for b in $(seq 0 255); do own+=",10.88.$a.$b . 10.88.$a.$b"; done; done
  in_net nft -f - <<N
table ip devcluster_hairpin {
  set own { type ipv4_addr . ipv4_addr; elements = { ${own#,} } }
  chain postrouting { type nat hook postrouting priority srcnat - 1; ct status dnat ip saddr . ip daddr @own masquerade; }
}
N
}
