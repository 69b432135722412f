#!/bin/bash
# slurmctld in the foreground: SLURMCTLD_OPTIONS are words, arguments come after.
set -euo pipefail

# With slurmdbd, slurmctld writes assoc_usage when it ends well or has run for five minutes, and will not start without
# it where clustername says that it has run before: one that is killed in its first minutes would never start again.
# Without clustername (it writes it anew, with the id that slurmdbd knows) files may be missing, but those that are there
# are still read strictly: -i would let it go on without jobs that it cannot read, now and at each later reconfigure.
# A standby reads no state until it takes over: what is missing then comes with the slurmctld that it stands by.
conf=/etc/slurm/slurm.conf state=/var/spool/slurmctld
standby() { sed -n 's/^SlurmctldHost=\([^( ]*\).*/\1/p' $conf | tail -n +2 | grep -qxF "$(hostname)"; }
if grep -qs '^AccountingStorageType=accounting_storage/slurmdbd' $conf && ! standby &&
  compgen -G "$state/*/clustername" >/dev/null && ! compgen -G "$state/*/assoc_usage*" >/dev/null; then
  echo "slurmctld: killed before it had written assoc_usage; what else there is of its state is taken" >&2
  rm -f $state/*/clustername
fi
# shellcheck disable=SC2086
NOTIFY_SOCKET=/run/slurmctld/notify exec /usr/lib/bascule/service slurmctld ${SLURMCTLD_OPTIONS:-} "$@"
