# What the entrypoints share.

say() { printf '%s %s\n' "$(date -u +%FT%TZ)" "$*" >&2; }

# Runs a program for ever in the background: when it ends it is started again, after 1 s, then 2, 4 … up to 64 as long as
# it does not last.
keep() { # NAME COMMAND...
  local name=$1 pause=1 began status
  shift
  while true; do
    began=$SECONDS status=0
    "$@" || status=$?
    if [ $((SECONDS - began)) -ge 60 ]; then pause=1; fi
    say "$name ended with $status; started again in $pause s"
    sleep $pause
    if [ $pause -lt 64 ]; then pause=$((pause * 2)); fi
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
