# kubelet, kubeadm and kubectl of 1.30, reduced to their effects on a host: no part of a control plane runs. A host can
# join with a token during the token's lifetime, over the network and at the port of the endpoint. Texts are from
# kubernetes/kubernetes, tag v1.30.6 (cmd/kubeadm, cmd/kubelet, kubectl), units from kubernetes/release,
# cmd/krel/templates/latest.
# shellcheck shell=bash disable=SC2154,SC2016

for version in 1.30.5 1.30.6; do
  begin "$work"
  put "$work" usr/bin/kubelet 755 <<'END'
#!/bin/sh
case " $* " in *' --version '*) echo 'Kubernetes vVERSION' && exit ;; esac
config=/var/lib/kubelet/config.yaml
if [ ! -e "$config" ]; then
  echo "E0000 00:00:00.000000 $$ run.go:74] \"command failed\" err=\"failed to load kubelet config file, path: $config, error: failed to load Kubelet config file $config, error failed to read kubelet config file \\\"$config\\\", error: open $config: no such file or directory\"" >&2
  exit 1
fi
mkdir -p /run/kubelet
echo "$@" >/run/kubelet/arguments
# Simulates a static pod with its port.
[ ! -e /etc/kubernetes/manifests/kube-apiserver.yaml ] || systemctl start kube-apiserver.socket
exec sleep infinity
END
  sed -i "s/VERSION/$version/" "$work/pkg/usr/bin/kubelet"
  put "$work" usr/lib/systemd/system/kubelet.service <<'END'
[Unit]
Description=kubelet: The Kubernetes Node Agent
Documentation=https://kubernetes.io/docs/
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
  put "$work" usr/lib/systemd/system/kube-apiserver.socket <<'END'
[Unit]
PartOf=kubelet.service
[Socket]
ListenStream=6443
Accept=yes
END
  put "$work" usr/lib/systemd/system/kube-apiserver@.service <<'END'
[Service]
StandardInput=socket
ExecStart=/usr/lib/stand-ins/apiserver
END
  # Answers with one line: whether it is ready, or whether the client may join.
  put "$work" usr/lib/stand-ins/apiserver 755 <<'END'
#!/bin/bash
read -r what token hash key
case $what in
readyz) echo ok ;;
version) printf '{ "major": "1", "minor": "30", "gitVersion": "vVERSION" }\n' ;;
join)
  read -r known ends <<<"$(cat /var/lib/etcd/certificates 2>/dev/null)"
  [ "${key:-none}" = none ] || [ "$known,$((${ends:-0} > $(date +%s)))" = "$key,1" ] || { echo certificates && exit; }
  now=$(date +%s)
  [ "$hash" = "sha256:$(sha256sum </etc/kubernetes/pki/ca.crt | cut -d' ' -f1)" ] || { echo hash && exit; }
  while read -r known ends; do
    [ "$known,$((ends > now))" != "$token,1" ] || { echo welcome && exit; }
  done </var/lib/etcd/tokens
  echo token
  ;;
esac
END
  sed -i "s/VERSION/$version/" "$work/pkg/usr/lib/stand-ins/apiserver"
  reload_postinst | put "$work" DEBIAN/postinst 755
  finish "$work" kubelet "$version-1.1"

  begin "$work"
  put "$work" usr/bin/kubectl 755 <<'END'
#!/bin/bash
[ "${1-}" = --kubeconfig ] && file=$2 && shift 2
server=$(sed -n 's,^ *server: https://,,p' "$file") || exit 1
# No node is left of an earlier join. The format is that of kubectl 1.20.2.
[ "$*" != 'get nodes -o name' ] || { echo "node/$(uname -n)" && exit; }
case "$*" in 'get --raw=/readyz' | 'get --raw=/version') what=${2#--raw=/} ;; *) what= ;; esac
if [ -n "$what" ] && exec 3<>"/dev/tcp/${server%:*}/${server##*:}"; then
  echo "$what" >&3 && read -r said <&3 && printf %s "$said"
else
  echo "The connection to the server $server was refused - did you specify the right host or port?" >&2
  exit 1
fi 2>/dev/null
END
  finish "$work" kubectl "$version-1.1"

  begin "$work"
  put "$work" usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf <<'END'
# Note: This dropin only works with kubeadm and kubelet v1.11+
[Service]
Environment="KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf"
Environment="KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml"
# This is a file that "kubeadm init" and "kubeadm join" generates at runtime, populating the KUBELET_KUBEADM_ARGS variable dynamically
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
# This is a file that the user can use for overrides of the kubelet args as a last resort. Preferably, the user should use
# the .NodeRegistration.KubeletExtraArgs object in the configuration files instead. KUBELET_EXTRA_ARGS should be sourced from this file.
EnvironmentFile=-/etc/default/kubelet
ExecStart=
ExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS
END
  put "$work" usr/bin/kubeadm 755 <<'END'
#!/bin/bash
set -e
fatal() {
  printf 'error execution phase preflight: [preflight] Some fatal errors occurred:\n%s\n' "$1" >&2
  echo '[preflight] If you know what you are doing, you can make a check non-fatal with `--ignore-preflight-errors=...`' >&2
  exit 1
}
preflight() {
  echo '[preflight] Running pre-flight checks'
  [ -S /run/containerd/containerd.sock ] || fatal $'\t[ERROR CRI]: container runtime is not running'
  [ "$(cat /proc/sys/net/ipv4/ip_forward)" = 1 ] || fatal $'\t[ERROR FileContent--proc-sys-net-ipv4-ip_forward]: /proc/sys/net/ipv4/ip_forward contents are not set to 1'
  for file in "$@"; do
    [ ! -e "$file" ] || fatal $'\t[ERROR FileAvailable--'"$(echo "${file#/}" | tr / -)]: $file already exists"
  done
}
# Writes a kubeconfig for the server $2 to the file $1.
config() {
  mkdir -p "${1%/*}"
  (umask 077 && printf 'apiVersion: v1\nclusters:\n- cluster:\n    server: https://%s\n  name: kubernetes\nkind: Config\n' "$2" >"$1")
}
kubelet_start() {
  echo '[kubelet-start] Writing kubelet environment file with flags to file "/var/lib/kubelet/kubeadm-flags.env"'
  echo '[kubelet-start] Writing kubelet configuration to file "/var/lib/kubelet/config.yaml"'
  mkdir -p /var/lib/kubelet
  echo 'KUBELET_KUBEADM_ARGS="--container-runtime-endpoint=unix:///var/run/containerd/containerd.sock"' >/var/lib/kubelet/kubeadm-flags.env
  printf 'apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncgroupDriver: systemd\n' >/var/lib/kubelet/config.yaml
  echo '[kubelet-start] Starting the kubelet'
  systemctl daemon-reload
  systemctl restart kubelet
}
hash() { echo "sha256:$(sha256sum </etc/kubernetes/pki/ca.crt | cut -d' ' -f1)"; }
# Creates a token with a lifetime of $1 seconds, and sets $token.
token() {
  token=$(tr -dc a-z0-9 </dev/urandom | head -c 6).$(tr -dc a-z0-9 </dev/urandom | head -c 16) || :
  (umask 077 && echo "$token $(($(date +%s) + $1))" >>/var/lib/etcd/tokens)
}
seconds() { case $1 in *h) echo $((${1%h} * 3600)) ;; *m) echo $((${1%m} * 60)) ;; *s) echo "${1%s}" ;; esac; }

# Prints the value of a key in the configuration file $1, which forge writes as JSON.
field() { grep -o "\"$2\": \"[^\"]*\"" "$1" | head -1 | cut -d'"' -f4; }
# Writes the configuration and the static pods of a control plane for the server $1.
control_plane() {
  mkdir -p /etc/kubernetes/pki /etc/kubernetes/manifests /var/lib/etcd
  for name in admin controller-manager scheduler kubelet; do config "/etc/kubernetes/$name.conf" "$1"; done
  for name in etcd kube-apiserver kube-controller-manager kube-scheduler; do
    printf 'apiVersion: v1\nkind: Pod\nmetadata:\n  name: %s\nspec:\n  containers:\n  - name: %s\n' "$name" "$name" >"/etc/kubernetes/manifests/$name.yaml"
    printf '    image: registry.k8s.io/%s:vVERSION\n' "$name" >>"/etc/kubernetes/manifests/$name.yaml"
  done
}

verb=$1 ttl=24h
shift
case $verb in
init)
  if [ "$*" = 'phase upload-certs --upload-certs --config /etc/kubernetes/forge-kubeadm.yaml' ]; then
    key=$(head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n')
    (umask 077 && echo "$key $(($(date +%s) + 7200))" >/var/lib/etcd/certificates)
    echo '[upload-certs] Storing the certificates in Secret "kubeadm-certs" in the "kube-system" Namespace'
    printf '[upload-certs] Using certificate key:\n%s\n' "$key"
    exit
  fi
  while [ $# -gt 0 ]; do
    case $1 in
    --config) file=$2 && shift ;;
    --skip-token-print) quiet=1 ;;
    *) echo "unknown flag: $1" >&2 && exit 1 ;;
    esac
    shift
  done
  endpoint=$(field "$file" controlPlaneEndpoint) ttl=$(field "$file" ttl)
  echo '[init] Using Kubernetes version: vVERSION'
  preflight /etc/kubernetes/manifests/kube-apiserver.yaml /etc/kubernetes/manifests/etcd.yaml
  # The kubelet starts the pods that are already declared.
  [ ! -e /etc/kubernetes/manifests/kube-vip.yaml ] || cp /etc/kubernetes/manifests/kube-vip.yaml /srv/kube-vip-at-init.yaml
  control_plane "$endpoint"
  head -c 32 /dev/urandom | base64 >/etc/kubernetes/pki/ca.crt
  kubelet_start
  token "$(seconds "$ttl")"
  [ "${quiet-}" ] || echo "[bootstrap-token] Using token: $token"
  printf '\nYour Kubernetes control-plane has initialized successfully!\n\n'
  echo 'Then you can join any number of worker nodes by running the following on each as root:'
  [ "${quiet-}" ] && token='<value withheld>'
  printf '\nkubeadm join %s --token %s \\\n\t--discovery-token-ca-cert-hash %s \n' "$endpoint" "$token" "$(hash)"
  ;;
token)
  [ "$1 $2 $4" = 'create --ttl --print-join-command' ]
  token "$(seconds "$3")"
  endpoint=$(sed -n 's,^ *server: https://,,p' /etc/kubernetes/admin.conf)
  echo "kubeadm join $endpoint --token $token --discovery-token-ca-cert-hash $(hash) "
  ;;
join)
  [ "$2 $4" = '--token --discovery-token-ca-cert-hash' ]
  key=none
  [ $# = 5 ] || { [ "$6 $7 $#" = '--control-plane --certificate-key 8' ] && key=$8; }
  preflight /etc/kubernetes/kubelet.conf /etc/kubernetes/pki/ca.crt
  exec 3<>"/dev/tcp/${1%:*}/${1##*:}"
  echo "join $3 $5 $key" >&3
  read -r said <&3
  if [ "$said" = certificates ]; then
    echo 'error execution phase control-plane-prepare/download-certs: error downloading certs: error downloading the secret: Secret "kubeadm-certs" was not found in the "kube-system" Namespace. This Secret might have expired. Please, run `kubeadm init phase upload-certs --upload-certs` on a control plane to generate a new one' >&2
    exit 1
  fi
  if [ "$said" != welcome ]; then
    echo "error execution phase preflight: couldn't validate the identity of the API Server: could not find a JWS signature in the cluster-info ConfigMap for token ID \"${3%.*}\"" >&2
    exit 1
  fi
  config /etc/kubernetes/kubelet.conf "$1"
  mkdir -p /etc/kubernetes/pki && : >/etc/kubernetes/pki/ca.crt
  kubelet_start
  if [ "$key" != none ]; then
    control_plane "$1"
    printf '\nThis node has joined the cluster and a new control plane instance was created:\n\n'
    printf '* Certificate signing request was sent to apiserver and approval was received.\n'
    exit
  fi
  printf '\nThis node has joined the cluster:\n* Certificate signing request was sent to apiserver and a response was received.\n'
  printf '* The Kubelet was informed of the new secure connection details.\n\n'
  echo "Run 'kubectl get nodes' on the control-plane to see this node join the cluster."
  ;;
version)
  [ "$*" = '-o short' ]
  echo vVERSION
  ;;
reset)
  [ "$1" = --force ]
  echo '[preflight] Running pre-flight checks'
  echo '[reset] Stopping the kubelet service'
  systemctl stop kubelet
  rm -rf /etc/kubernetes/manifests/* /etc/kubernetes/pki/* /var/lib/etcd/* /var/lib/kubelet/*
  rm -f /etc/kubernetes/{admin,kubelet,bootstrap-kubelet,controller-manager,scheduler}.conf
  ;;
certs)
  # The table of `kubeadm certs check-expiration`, as the real kubeadm 1.20.2 prints it.
  if [ "$1 ${2-}" = 'renew all' ]; then
    rm -f /srv/certificates-left
    exit
  fi
  [ "$1" = check-expiration ]
  left=$(cat /srv/certificates-left 2>/dev/null || echo 364d)
  echo 'CERTIFICATE                         EXPIRES                  RESIDUAL TIME   CERTIFICATE AUTHORITY   EXTERNALLY MANAGED'
  echo "apiserver                           Nov 25, 2027 03:16 UTC   $left            ca                      no      "
  echo
  echo 'CERTIFICATE AUTHORITY   EXPIRES                  RESIDUAL TIME   EXTERNALLY MANAGED'
  echo 'ca                      Nov 22, 2036 03:16 UTC   9y              no      '
  ;;
esac
END
  sed -i "s/VERSION/$version/g" "$work/pkg/usr/bin/kubeadm"
  finish "$work" kubeadm "$version-1.1" 'kubelet (>= 1.19.0), kubectl (>= 1.19.0)'
done
