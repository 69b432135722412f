# `devcluster build`: Kubernetes, etcd, CoreDNS, Helm and our own helpers from the Go module proxy; the two base images.
# Each set is one Go module under go/ with pinned go.mod and go.sum. A set is built when its stamp (a hash of that folder
# and of how it is built) is not the one kept; programs are built beside and renamed, so an interrupted build leaves no half program.

hash_of() { (cd "$1" && find . -type f | LC_ALL=C sort | xargs sha256sum | sha256sum | cut -c1-16); }

go_set() { # FOLDER WHAT USUALLY LDFLAGS PACKAGE=PROGRAM...
  local folder=$1 what=$2 usually=$3 ldflags=$4 stamp; shift 4
  stamp=$( (hash_of "$HERE/go/$folder"; echo "$ldflags" "$@") | sha256sum | cut -c1-16)
  local p have=1; for p in "$@"; do [ -x "$BIN/${p#*=}" ] || have=0; done
  [ $have = 1 ] && [ "$(cat "$CACHE/stamps/$folder" 2>/dev/null)" = "$stamp" ] && return 0
  command -v go >/dev/null || die "Go is not installed; 1.26 or newer is needed to build $what"
  long_step "building $what" "$usually" "$CACHE/log/$folder.log" go_programs "$folder" "$ldflags" "$@"
  echo "$stamp" > "$CACHE/stamps/$folder"
}

go_programs() { # FOLDER LDFLAGS PACKAGE=PROGRAM...
  local folder=$1 ldflags=$2 p out=$CACHE/tmp/$1; shift 2
  rm -rf "$out"; mkdir -p "$out"
  # all at once, so that go builds shared packages once and in parallel
  (cd "$HERE/go/$folder" && CGO_ENABLED=0 go build -trimpath -ldflags "-s -w $ldflags" -o "$out/" "${@%%=*}")
  for p in "$@"; do
    local made=${p%%=*}; made=${made##*/}; [ "${p%%=*}" = . ] && made=$folder
    [ -e "$out/$made" ] || made=$(basename "$(dirname "${p%%=*}")")   # .../server/v3 becomes `server`
    mv "$out/$made" "$BIN/${p#*=}"
  done
  rm -rf "$out"
}

need_packages() {
  local p need=()
  for p in containerd runc debootstrap buildah containernetworking-plugins busybox-static iproute2 nftables openssl curl jq procps gcc; do
    dpkg -s "$p" >/dev/null 2>&1 || need+=("$p")
  done
  [ ${#need[@]} = 0 ] || long_step "installing ${need[*]}" "1 min" "$CACHE/log/apt.log" install_packages "${need[@]}"
}
install_packages() { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"; }

pause_image() { # the program that holds a pod's namespaces
  local w=$1 c
  gcc -static -Os -o "$w/pause" "$HERE/images/pause.c"
  c=$(buildah from scratch)
  buildah copy -q "$c" "$w/pause" /pause
  buildah config --entrypoint '["/pause"]' "$c"
  buildah commit -q "$c" localhost/pause:dev; buildah rm "$c"
  buildah push -q localhost/pause:dev "oci-archive:$w/pause.tar:localhost/pause:dev"
}

busybox_image() {
  local w=$1/busybox c a
  mkdir -p "$w"/{bin,tmp,etc}; chmod 1777 "$w/tmp"
  cp /bin/busybox "$w/bin/busybox"
  for a in $(/bin/busybox --list); do [ -e "$w/bin/$a" ] || ln -s busybox "$w/bin/$a"; done
  echo 'root:x:0:0:root:/:/bin/sh' > "$w/etc/passwd"
  c=$(buildah from scratch)
  buildah copy -q "$c" "$w" /
  buildah config --env PATH=/bin --cmd '["/bin/sh"]' "$c"
  buildah commit -q "$c" docker.io/library/busybox:stable; buildah rm "$c"
  buildah push -q docker.io/library/busybox:stable "oci-archive:$1/busybox.tar:docker.io/library/busybox:stable"
}

build_images() {
  local w=$CACHE/tmp/images; rm -rf "$w"; mkdir -p "$w"
  pause_image "$w"; busybox_image "$w"
  rm -rf "$CACHE/images"; mkdir -p "$CACHE/images"; mv "$w"/*.tar "$CACHE/images/"; rm -rf "$w"
}

cmd_build() {
  mkdir -p "$CACHE"/{log,stamps,tmp} "$BIN"
  # clusters of different names share the cache
  exec 7>"$CACHE/lock"
  flock -n 7 || { say "another build is at work in $CACHE, waiting for it"; flock 7; }
  need_packages
  local v=k8s.io/component-base/version k=k8s.io/kubernetes/cmd
  go_set kube "Kubernetes 1.36.3 (6 programs)" "6-8 min" "-X $v.gitVersion=v1.36.3 -X $v.gitMajor=1 -X $v.gitMinor=36" \
    $k/kube-apiserver=kube-apiserver $k/kube-controller-manager=kube-controller-manager $k/kube-scheduler=kube-scheduler \
    $k/kube-proxy=kube-proxy $k/kubelet=kubelet $k/kubectl=kubectl
  go_set etcd "etcd 3.6.16" "1 min" "" go.etcd.io/etcd/server/v3=etcd
  go_set coredns "CoreDNS 1.14.1" "1 min" "" .=coredns
  # without these `helm template` renders for Kubernetes 1.20
  local h=helm.sh/helm/v3 c=helm.sh/helm/v3/pkg/chartutil
  go_set helm "Helm 3.20.2" "1 min" "-X $h/internal/version.version=v3.20.2 -X $c.k8sVersionMajor=1 -X $c.k8sVersionMinor=36" helm.sh/helm/v3/cmd/helm=helm
  go_set fakenodes "fakenodes" "20 s" "" .=fakenodes
  go_set dradrivers "dradrivers" "20 s" "" .=dradrivers
  if [ ! -e "$CACHE/images/pause.tar" ] || [ ! -e "$CACHE/images/busybox.tar" ]; then
    long_step "making the images pause:dev and busybox:stable" "5 s" "$CACHE/log/images.log" build_images
  fi
  slurm_tree 26
  local extra; for extra in "$@"; do
    case $extra in slurm24) slurm_tree 24 ;; slurm26) ;; *) die "build knows 'slurm24', not '$extra'" ;; esac
  done
  exec 7>&-
}
