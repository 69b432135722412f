# Nodes by the thousand: go/fakenodes creates the Node objects, renews their leases and plays kubelet for their pods.

cmd_fakenodes() {
  [[ ${1:-} =~ ^[0-9]+$ ]] || {
    mkdir -p "$CACHE"; [ -x "$BIN/fakenodes" ] && "$BIN/fakenodes" --help 2>&1 | sed 's/^Usage of/Usage:/' >&2
    die "fakenodes how many? e.g. devcluster fakenodes 1000 --cpu 64 --gpus 8; 0 removes them"
  }
  need_up
  local count=$1 before=; shift
  before=$(cat "$STATE/proc/fakenodes/cmd" 2>/dev/null | tr '\0' ' ' || true)
  define fakenodes "$BIN/fakenodes" --kubeconfig "$STATE/admin.kubeconfig" --count "$count" "$@"
  if [ "$before" = "$(tr '\0' ' ' < "$STATE/proc/fakenodes/cmd")" ] && pid_of fakenodes >/dev/null; then
    say "$count fake nodes are up already"; return
  fi
  stop fakenodes
  : > "$LOG/fakenodes.log"
  say "going to $count fake nodes (usually 5 s for 1000)"
  start fakenodes
  until grep -q '^fakenodes: ' "$LOG/fakenodes.log"; do
    pid_of fakenodes >/dev/null || grep -q '^fakenodes: ' "$LOG/fakenodes.log" || {
      tail -n 5 "$LOG/fakenodes.log" >&2; rm -rf "$STATE/proc/fakenodes"; die "fakenodes failed, see above"
    }
    sleep 0.1
  done
  say "$(tail -n 1 "$LOG/fakenodes.log")"
  if [ "$count" = 0 ]; then stop fakenodes; rm -rf "$STATE/proc/fakenodes"; fi
}
