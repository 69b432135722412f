#!/bin/bash
# slurmctld in the foreground: SLURMCTLD_OPTIONS are words, arguments come after.
set -euo pipefail
# shellcheck disable=SC2086
exec slurmctld -D ${SLURMCTLD_OPTIONS:-} "$@"
