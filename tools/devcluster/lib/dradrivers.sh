# DRA drivers without devices: go/dradrivers prepares every claim for the kubelets that are there now.

cmd_dradrivers() {
  [ $# -gt 0 ] || die "which drivers? e.g. devcluster dradrivers gpu.example.com dra.cpu"
  need_up
  local before n roots=()
  for n in $(programs | sed -n 's/^kubelet-//p'); do roots+=("$STATE/$n/kubelet"); done
  [ ${#roots[@]} -gt 0 ] || die "there is no kubelet"
  before=$(cat "$STATE/proc/dradrivers/cmd" 2>/dev/null | tr '\0' ' ' || true)
  define dradrivers "$BIN/dradrivers" "${roots[@]}" -- "$@"
  [ "$before" = "$(tr '\0' ' ' < "$STATE/proc/dradrivers/cmd")" ] || stop dradrivers
  start dradrivers
}
