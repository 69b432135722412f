# Root filesystems with Slurm from Debian: 26.05 from sid, 24.11 from trixie. Made beside and renamed when whole.

slurm_tree() { # 26|24
  local tree=$CACHE/slurm$1 suite release
  case $1 in
    26) suite=sid release=26.05 ;;
    24) suite=trixie release=24.11 ;;
  esac
  [ -d "$tree" ] && return 0   # it got its name when it was whole
  mkdir -p "$CACHE"/{log,tmp}
  long_step "making a root filesystem with Slurm $release (Debian $suite)" "1-2 min" "$CACHE/log/slurm$1.log" \
    make_slurm_tree "$suite" "$CACHE/tmp/slurm$1" "$tree"
  local got; got=$(chroot "$tree" slurmctld -V 2>/dev/null || true)
  case $got in
    *" $release"*) ;;
    *) say "WARNING: Debian $suite now has '$got'; what is tested here is $release" ;;
  esac
}

make_slurm_tree() { # SUITE WORKFOLDER RESULT
  local w=$2
  # a run that was cut off may have left its mounts; never delete through them
  awk -v w="$w/" 'index($2, w) == 1 {print $2}' /proc/mounts | sort -r | xargs -r umount -l
  rm -rf --one-file-system "$w" "$3"
  debootstrap --variant=minbase "$1" "$w" || { cat "$w/debootstrap/debootstrap.log" 2>/dev/null; return 1; }
  printf '#!/bin/sh\nexit 101\n' > "$w/usr/sbin/policy-rc.d"; chmod +x "$w/usr/sbin/policy-rc.d"
  # No apt-get update: the lists are those that debootstrap has just fetched, and sid's Release file may be
  # called too old on a machine whose clock runs ahead of the mirror.
  DEBIAN_FRONTEND=noninteractive chroot "$w" apt-get install -y -qq --no-install-recommends \
    slurmctld slurmd slurmrestd slurmdbd slurm-client slurm-wlm-basic-plugins slurm-wlm-jwt-plugin slurm-wlm-mysql-plugin
  chroot "$w" apt-get clean
  rm -f "$w"/etc/{hosts,resolv.conf}; touch "$w"/etc/{hosts,resolv.conf}   # a box mounts its own over these
  mv "$w" "$3"
}
