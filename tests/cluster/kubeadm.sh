# shellcheck shell=bash
# What a node of the fleet needs for a cluster that kubeadm makes: packages with the names and files of Kubernetes'
# own, and the images of a control plane under the name of a mirror. Sourced by `cluster`.

readonly MIRROR=mirror.example/k8s

kubeadm_programs() { echo "$CACHE/kubeadm-$( { cat "$HERE"/{build.sh,crictl.go} && declare -f build_kubeadm; } | sha256sum | cut -c1-12)"; }

# Builds kubeadm and crictl, or reuses them. Apart from the other programs, because only one test, which runs on demand,
# needs them: it takes minutes, most of them for packages that the other programs share.
build_kubeadm() (
  out=$(kubeadm_programs)
  [[ ! -d $out ]] || return 0
  exec 7>"$CACHE/kubeadm.lock"
  flock 7
  [[ ! -d $out ]] || return 0 # another process built it meanwhile
  say "building kubeadm; this takes some minutes"
  rm -rf "$CACHE"/kubeadm-*
  work=$out.new/work
  mkdir -p "$work/go/src/k8s.io"
  download_tree "$work"
  mend_tree "$work"
  ln -s "$work/tree" "$work/go/src/k8s.io/kubernetes"
  mkdir "$work/tree/cmd/crictl"
  cp "$HERE/crictl.go" "$work/tree/cmd/crictl/"
  version=$(dpkg-parsechangelog -l "$work/tree/debian/changelog" -S Version | sed 's/.*really//; s/-.*//')
  for program in kubeadm crictl; do
    in_tree "$work" go build "$COMPILER" -ldflags "-s -w $(version_flags "$version")" -o "$out.new/$program" "./cmd/$program"
  done
  (cd "$out.new" && apt-get -qq -o APT::Sandbox::User=root download etcd-client && dpkg-deb -x etcd-client_*.deb deb)
  mv "$out.new/deb/usr/bin/etcdctl" "$out.new/"
  chmod -R u+w "$work" && rm -rf "$work" "$out.new"/deb "$out.new"/*.deb
  mv "$out.new" "$out" # the name appears only when everything is in place
)

# Makes package $1 of version $2 from folder $3, with the dependencies $4, in the working directory. Not compressed.
make_package() {
  mkdir -p "$3/DEBIAN"
  printf 'Package: %s\nVersion: %s\nArchitecture: amd64\nMaintainer: forge <forge@example>\nDescription: %s of the tests\n' "$1" "$2" "$1" >"$3/DEBIAN/control"
  [[ -z $4 ]] || printf 'Depends: %s\n' "$4" >>"$3/DEBIAN/control"
  dpkg-deb -Znone --root-owner-group --build "$3" "$1_$2_amd64.deb" >/dev/null
}

# Units are from kubernetes/release, cmd/krel/templates/latest. A kubelet enters the namespace of `groups`.
make_kubelet() {
  install -D "$1/kubelet" pkg/kubelet/usr/lib/kubernetes/kubelet
  install -D /dev/stdin pkg/kubelet/usr/bin/kubelet <<'END'
#!/bin/sh
[ ! -e /run/groups/pid ] || exec nsenter --target "$(cat /run/groups/pid)" --mount --cgroup /usr/lib/kubernetes/kubelet "$@"
exec /usr/lib/kubernetes/kubelet "$@"
END
  install -D -m 644 /dev/stdin pkg/kubelet/usr/lib/systemd/system/kubelet.service <<'END'
[Unit]
Description=kubelet: The Kubernetes Node Agent
Wants=network-online.target
After=network-online.target

[Service]
ExecStart=/usr/bin/kubelet
Restart=always
StartLimitInterval=0
RestartSec=10

[Install]
WantedBy=multi-user.target
END
  install -D /dev/stdin pkg/kubelet/DEBIAN/postinst <<'END'
#!/bin/sh
systemctl daemon-reload
END
  make_package kubelet "$2" pkg/kubelet 'conntrack, iptables, kubernetes-cni'
}

make_kubeadm() {
  install -D "$1/kubeadm" pkg/kubeadm/usr/bin/kubeadm
  install -D -m 644 /dev/stdin pkg/kubeadm/usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf <<'END'
[Service]
Environment="KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf"
Environment="KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml"
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
EnvironmentFile=-/etc/default/kubelet
ExecStart=
ExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS
END
  make_package kubeadm "$2" pkg/kubeadm 'kubelet, kubectl, cri-tools'
}

# Makes a repository of packages in the working directory. $1 has the programs, $2 is the release.
make_repository() {
  apt-get -qq -o APT::Sandbox::User=root download conntrack libnetfilter-conntrack3 libnfnetlink0 libmnl0
  make_kubelet "$1" "$2-1.1"
  make_kubeadm "$1" "$2-1.1"
  install -D "$1/kubectl" pkg/kubectl/usr/bin/kubectl
  make_package kubectl "$2-1.1" pkg/kubectl ''
  install -D "$1/crictl" pkg/cri-tools/usr/bin/crictl
  make_package cri-tools "$2-1.1" pkg/cri-tools ''
  install -D -t pkg/kubernetes-cni/opt/cni/bin "$1"/cni/*
  make_package kubernetes-cni 1.1.1-1 pkg/kubernetes-cni ''
  rm -rf pkg
  dpkg-scanpackages --multiversion . 2>/dev/null >Packages
}

# Makes the images in the working directory: kubeadm 1.20 asks for these names. The programs of the control plane and
# etcd are real. kube-proxy and CoreDNS are only names: their images contain `pause`.
make_images() {
  local name library
  for name in kube-apiserver kube-controller-manager kube-scheduler; do
    install -D "$1/$name" "root/bin/$name"
    pack_image "$MIRROR/$name:v$2" root "$name.tar" null
    rm -rf root
  done
  install -D "$(command -v etcd)" root/bin/etcd
  install "$1/etcdctl" root/bin/etcdctl
  for library in $(ldd root/bin/etcd root/bin/etcdctl | grep -o '/[^ ]*' | grep -v '^/.*:$' | sort -u); do install -D "$library" "root$library"; done
  pack_image "$MIRROR/etcd:3.4.13-0" root etcd.tar null
  rm -rf root
  install -D "$1/pause" root/pause
  pack_image "$MIRROR/pause:3.2" root pause.tar '["/pause"]'
  install -D "$1/pause" root/usr/local/bin/kube-proxy
  install -D "$1/pause" root/coredns
  pack_image "$MIRROR/kube-proxy:v$2" root kube-proxy.tar null
  pack_image "$MIRROR/coredns:1.7.0" root coredns.tar '["/coredns"]'
  rm -rf root
}

# Prints a tar with the folders `packages` and `images`, and the script `groups`. $1 is the folder of the cluster's
# programs.
pack_kubeadm() (
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  mkdir "$work"/{programs,tar} "$work"/tar/{packages,images}
  tar -C "$work/programs" -xf "$1/node.tar" ./kubelet-program ./cni ./images/pause.tar
  tar -C "$work/programs" -xf "$work/programs/images/pause.tar" layer.tar
  tar -C "$work/programs" -xf "$work/programs/layer.tar" ./pause
  mv "$work/programs/kubelet-program" "$work/programs/kubelet"
  ln -s "$1"/{kubectl,kube-apiserver,kube-controller-manager,kube-scheduler} "$(kubeadm_programs)"/{kubeadm,crictl,etcdctl} "$work/programs/"
  release=$("$work/programs/kubeadm" version -o short)
  (cd "$work/tar/packages" && make_repository "$work/programs" "${release#v}")
  (cd "$work/tar/images" && make_images "$work/programs" "${release#v}")
  cp "$HERE/groups" "$work/tar/"
  tar -C "$work/tar" -cf - .
)
