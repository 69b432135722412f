#!/bin/sh
# entrypoint of slurmdbd. That of 24.11 takes no slurmdbd.conf which its group may read, and that of a volume with fsGroup
# may: there it reads a copy, for itself alone.
set -eu
case $(slurmctld -V) in
  *" 24."*)
    (umask 077; mkdir -p /run/slurmdbd-etc; cp -L /etc/slurm/* /run/slurmdbd-etc/; chmod 600 /run/slurmdbd-etc/*)
    export SLURM_CONF=/run/slurmdbd-etc/slurm.conf
    ;;
esac
exec slurmdbd -D "$@"
