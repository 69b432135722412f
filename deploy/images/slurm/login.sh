#!/bin/bash
# A login node: sackd (SACKD_OPTIONS) gives Slurm's commands their configuration and identity, sshd (SSHD_OPTIONS) lets
# people in, sssd (SSSD_OPTIONS, SSSD_MODE) knows them. The container lives as long as sshd does.
set -euo pipefail
. /usr/lib/bascule/common.sh

mkdir -p /run/slurm
chown 401:401 /run/slurm
# By its path: to reconfigure it executes itself anew, and looks for no name.
# shellcheck disable=SC2086
keep sackd setpriv --reuid 401 --regid 401 --clear-groups /usr/sbin/sackd -D ${SACKD_OPTIONS:-}
keep_sssd
prepare_sshd
# shellcheck disable=SC2086
exec /usr/sbin/sshd -D -e ${SSHD_OPTIONS:-}
