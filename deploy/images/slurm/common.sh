# What the entrypoints share.

say() { printf '%s %s\n' "$(date -u +%FT%TZ)" "$*" >&2; }

# Runs a program for ever in the background: it is started again a second after it ended.
keep() { # NAME COMMAND...
  local name=$1
  shift
  while true; do
    "$@" || say "$name ended with $?; started again in a second"
    sleep 1
  done &
}

# sshd wants a folder, and host keys: those that are mounted, else new ones.
prepare_sshd() {
  mkdir -p /run/sshd
  chmod 755 /run/sshd
  ssh-keygen -A >/dev/null
}

# SSSD_MODE: embedded (it runs here when it is configured), or sidecar and disabled (it does not).
keep_sssd() {
  case ${SSSD_MODE:-embedded} in
    embedded) ;;
    *) return 0 ;;
  esac
  [ -s /etc/sssd/sssd.conf ] || return 0
  mkdir -p /run/sssd /var/lib/sss/{db,mc,pipes/private,pubconf}
  # shellcheck disable=SC2086  # options are words
  keep sssd sssd --interactive --logger=stderr ${SSSD_OPTIONS:-}
}
