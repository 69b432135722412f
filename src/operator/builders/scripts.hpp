// What the helper containers run. POSIX sh unless said otherwise: the images are the user's.
#pragma once

#include <string_view>

namespace bascule::op::scripts {

// SOCKET: path of a pipe that a daemon writes its log to; copied to our output for ever. A pipe that is there is kept:
// the daemon may hold it open. A shell heeds a signal while it waits, not while a program in its foreground runs.
inline constexpr std::string_view kLogfile = R"sh(set -eu
pipe="${SOCKET:-/tmp/logfile.log}"
trap 'exit 0' TERM
trap 'exit 1' INT HUP
mkdir -p "$(dirname "$pipe")"
if ! [ -p "$pipe" ]; then
  rm -rf "$pipe"
  mkfifo -m 777 "$pipe"
fi
while true; do
  cat "$pipe" &
  wait $! || true
  sleep 1
done
)sh";

// Copies configuration and keys from /mnt/slurm to /mnt/etc/slurm, for SlurmUser (401): a projected volume belongs to
// root, and sackd runs as SlurmUser.
inline constexpr std::string_view kInitConf = R"sh(set -eu
from=/mnt/slurm
to=/mnt/etc/slurm
mkdir -p "$to"
find "$from" \( -type f -o -type l \) | while IFS= read -r file; do
  case "$file" in
    */..*) ;;
    *.conf | *.key) cp -L "$file" "$to/" ;;
  esac
done
for file in "$to"/*; do
  [ -e "$file" ] || continue
  chown 401:401 "$file"
  case "$file" in
    */slurmdbd.conf | *.key) chmod 600 "$file" ;;
    *.conf) chmod 644 "$file" ;;
  esac
done
ls -l "$to"
)sh";

// Bash, run by tini. Makes slurmctld read its configuration again when a file in /etc/slurm has changed. A refusal is
// retried after 2 s, doubling to 60 s; a change meanwhile is taken at once. `bascule explain` reads what it says.
// What slurmctld runs is known only of a reconfigure that it took: at start, and after a try that failed (its answer
// may have been lost), the digest that slurmctld says is compared with the file's. A change seen here is always told:
// with a standby each pod has a sidecar, and the digest is that of the slurmctld that serves.
// SLURM_KEY_HASH: sha256 of the auth/slurm key that this pod was made for. slurmctld starts anew for a configuration
// and reads the key then, so with another key there it is told nothing: when it takes that one is the operator's to
// say. Once the right key is back it is told in any case, since it may have been started with the other.
inline constexpr std::string_view kReconfigure = R"sh(set -euo pipefail
dir=/etc/slurm
say() { printf '%s %s\n' "$(date -u +%FT%TZ)" "$*"; }
state() {
  find "$dir" \( -type f -o -type l \) -not -path '*/..*' -not -name slurm.key -print0 | sort -z | xargs -0r sha256sum | sha256sum
}
runs_it() { # CONFIG: what slurmctld says it runs
  digest="$(sed -n 's/.*\(config_digest=[0-9a-f]*\).*/\1/p' "$dir/slurm.conf" | tail -n 1)"
  [ -n "$digest" ] && grep -q "^SlurmctldParameters .*$digest" <<<"$1"
}
its_key() {
  [ -z "${SLURM_KEY_HASH:-}" ] || [[ "$(sha256sum < "$dir/slurm.key")" == "$SLURM_KEY_HASH "* ]]
}
known=""
tried=""
due=0
pause=2
say "watching $dir"
while true; do
  # A link may lead nowhere for a moment, while kubelet swaps the files.
  now="$(state)" || { sleep 1; continue; }
  if [ "$now" != "$known" ] && { [ "$now" != "$tried" ] || [ "$SECONDS" -ge "$due" ]; }; then
    if [ -z "$known" ]; then
      running="$(scontrol show config 2>/dev/null)" || { sleep 2; continue; }
    fi
    if ! its_key; then
      [ "$known" = held ] || say "slurmctld keeps its configuration, $dir/slurm.key is another than this pod was made for"
      known=held
      sleep 2
      continue
    fi
    [ "$now" = "$tried" ] || pause=2
    tried="$now"
    if [ -z "$known" ] && runs_it "$running"; then
      known="$now"
      say "slurmctld took the new configuration"
      continue
    fi
    say "$dir has changed, reconfiguring"
    if scontrol reconfigure; then
      known="$now"
      say "slurmctld took the new configuration"
    else
      known=""
      due=$((SECONDS + pause))
      say "slurmctld did not take the new configuration, next try in $pause s"
      pause=$((pause < 30 ? pause * 2 : 60))
    fi
  fi
  sleep 2
done
)sh";

// A worker's preStop hook: its Slurm node gets no more jobs, for a reason that is ours. A reason of somebody else, also
// one that ours was put before, stays: that node gets none anyway. scontrol asks a slurmctld that is gone for half a
// minute, and nobody shall wait that long for a cluster that is being deleted: 5 s a question.
inline constexpr std::string_view kWorkerPreStop = R"sh(node="${POD_SLURM_NODE:-$(hostname -s)}"
case "$(timeout 5 scontrol --oneliner show node "$node")" in
  *" Reason=slurm-operator: "*"; before: "*) ;;
  *" Reason=slurm-operator: "* | *" Reason=none"* ) down=1 ;;
  *" Reason="*) ;;
  *) down=1 ;;
esac
[ -z "${down:-}" ] || timeout 5 scontrol update nodename="$node" state=down reason="slurm-operator: pod is terminating"
)sh";

}  // namespace bascule::op::scripts
