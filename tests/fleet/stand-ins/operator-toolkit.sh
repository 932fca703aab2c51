# The container of NVIDIA's toolkit 1.17.8, as the GPU operator runs it on each node, reduced to its effect on containerd:
# it reads `containerd config dump`, adds three runtimes that copy the section of runc, writes all of it over the main
# file, and sends SIGHUP to containerd. From NVIDIA/nvidia-container-toolkit, tag v1.17.8: AddRuntime and GetRuntimes
# (pkg/config/engine/containerd/config.go, tools/container/operator/operator.go), getRuntimeConfig and SignalContainerd
# (tools/container/runtime/containerd).
# shellcheck shell=bash disable=SC2154,SC2016

begin "$work"
put "$work" usr/local/nvidia/toolkit/nvidia-toolkit 755 <<'OUTER'
#!/bin/bash
set -e
config=/etc/containerd/config.toml
runtimes='plugins."io.containerd.grpc.v1.cri".containerd.runtimes'
dump=$(containerd config dump)
# The section of runc and its options, up to the next section.
runc=$(awk -v head="[$runtimes.runc" '
  /^ *\[/ { own = index($0, head "]") || index($0, head ".") }
  own' <<<"$dump")
{
  # A second start replaces what the first one added.
  awk -v head="[$runtimes.nvidia" '/^ *\[/ { own = index($0, head) } !own' <<<"$dump"
  for name in nvidia nvidia-cdi nvidia-legacy; do
    binary=/usr/local/nvidia/toolkit/nvidia-container-runtime${name#nvidia}
    binary=${binary/runtime-/runtime.}
    sed -e "s|runtimes\.runc|runtimes.$name|" -e '/BinaryName/d' \
      -e "s|^\( *\)SystemdCgroup.*|&\n\1BinaryName = \"$binary\"|" <<<"$runc"
  done
} >"$config.new"
cat "$config.new" >"$config"
rm "$config.new"
pid=$(systemctl show -p MainPID --value containerd.service)
kill -HUP "$pid"
# systemd starts it again: `Restart=always` in the package's unit.
for _ in $(seq 100); do
  now=$(systemctl show -p MainPID --value containerd.service)
  [ "$now" != "$pid" ] && [ "$now" != 0 ] && ctr --timeout 10s version >/dev/null 2>&1 && exit
  sleep 0.1
done
echo 'containerd did not come back' >&2
exit 1
OUTER
finish "$work" nvidia-operator-toolkit 1.17.8-1
