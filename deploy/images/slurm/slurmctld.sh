#!/bin/bash
# slurmctld in the foreground: SLURMCTLD_OPTIONS are words, arguments come after.
set -euo pipefail

# With slurmdbd, slurmctld writes assoc_usage when it ends well or has run for five minutes, and will not start without
# it where it has run before: one that is killed in its first minutes would never start again. -i: it starts, with all
# that is there.
state=/var/spool/slurmctld
if grep -qs '^AccountingStorageType=accounting_storage/slurmdbd' /etc/slurm/slurm.conf &&
  compgen -G "$state/*/clustername" >/dev/null && ! compgen -G "$state/*/assoc_usage*" >/dev/null; then
  echo "slurmctld: killed before it had written assoc_usage; it starts with -i" >&2
  set -- -i "$@"
fi
# shellcheck disable=SC2086
exec slurmctld -D ${SLURMCTLD_OPTIONS:-} "$@"
