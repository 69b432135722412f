#!/bin/bash
# slurmd in the foreground, as a dynamic node. Arguments are data: nothing of them is evaluated. A slurmd that ends by
# itself is started again, so that the jobs go on that its slurmstepds look after; one that never came up ends the
# container.
#
#   SLURMD_OPTIONS           words before the arguments
#   POD_CPUS, POD_MEMORY     limits of the pod in cores and MiB; 0: none. What the host has beyond them becomes
#                            CoreSpecCount and MemSpecLimit, so that Slurm does not give it away.
#   SLINKY_TOPOLOGY          the node's place, for slurm-operator
#   SSHD_OPTIONS             words for sshd
#   PAM_SLURM_ADOPT_OPTIONS  how sshd treats users without a job here
set -euo pipefail
. /usr/lib/bascule/common.sh

# What `slurmd -C` says of this host: value of a key, 1 when it is missing.
hardware() { grep -o "\b$1=[0-9]*" <<<"$detected" | head -1 | cut -d= -f2 | grep . || echo 1; }

# The items of --conf: without one layer of single quotes (for images with a shell in between), without a topology that
# is empty, with what the pod's limits leave out.
node_conf() { # TEXT
  local text=$1 words=() word detected cores memory
  case $text in \'*\') text=${text:1:${#text}-2} ;; esac
  text=${text//"'\"\$SLINKY_TOPOLOGY\"'"/${SLINKY_TOPOLOGY:-}}   # slurm-operator leaves that to a shell
  read -ra words <<<"$text"
  text=
  for word in "${words[@]}"; do
    case $word in
      [Tt][Oo][Pp][Oo][Ll][Oo][Gg][Yy]=) ;;
      *) text+="${text:+ }$word" ;;
    esac
  done
  if [ "${POD_CPUS:-0}" -gt 0 ] || [ "${POD_MEMORY:-0}" -gt 0 ]; then
    detected=$(slurmd -C)
    cores=$(($(hardware Boards) * $(hardware SocketsPerBoard) * $(hardware CoresPerSocket) - POD_CPUS / $(hardware ThreadsPerCore)))
    memory=$(($(hardware RealMemory) - POD_MEMORY))
    [ "${POD_CPUS:-0}" -eq 0 ] || [ "$cores" -le 0 ] || text+=" CoreSpecCount=$cores"
    [ "${POD_MEMORY:-0}" -eq 0 ] || [ "$memory" -le 0 ] || text+=" MemSpecLimit=$memory"
  fi
  printf %s "$text"
}

arguments=()
while [ $# -gt 0 ]; do
  case $1 in
    --conf)
      arguments+=(--conf "$(node_conf "${2:-}")")
      shift
      ;;
    *) arguments+=("$1") ;;
  esac
  shift || break
done

keep_sssd
if [ -s /etc/ssh/sshd_config ] && grep -qs ' /etc/ssh/sshd_config ' /proc/self/mounts; then
  prepare_sshd
  adopt="account required pam_slurm_adopt.so ${PAM_SLURM_ADOPT_OPTIONS:-action_adopt_failure=deny action_generic_failure=deny}"
  # first of all: common-account ends with success for users of /etc/passwd, and nobody asks what comes after it
  grep -q pam_slurm_adopt /etc/pam.d/sshd || sed -i "0,/^@include common-account/s//$adopt\n&/" /etc/pam.d/sshd
  grep -q pam_slurm_adopt /etc/pam.d/sshd
  # shellcheck disable=SC2086
  keep sshd /usr/sbin/sshd -D -e ${SSHD_OPTIONS:-}
fi
# slurmd runs as root and uses these only when they are root's
mkdir -p /var/spool/slurmd /run/slurm
chown root:root /var/spool/slurmd /run/slurm
# shellcheck disable=SC2086
NOTIFY_SOCKET=/run/slurm/notify exec /usr/lib/bascule/service --again slurmd ${SLURMD_OPTIONS:-} "${arguments[@]}"
