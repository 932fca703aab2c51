# NVIDIA's container toolkit: four packages that always have the same version, and a runtime that calls runc, like the
# real one for containers without GPUs. Its version line is from NVIDIA/nvidia-container-toolkit, tag v1.17.8.
# shellcheck shell=bash disable=SC2154

for version in 1.17.7 1.17.8; do
  begin "$work"
  finish "$work" libnvidia-container1 "$version-1"
  begin "$work"
  finish "$work" libnvidia-container-tools "$version-1" "libnvidia-container1 (>= $version-1)"
  begin "$work"
  put "$work" usr/bin/nvidia-container-runtime 755 <<END
#!/bin/sh
[ "\${1-}" != --version ] || echo "NVIDIA Container Runtime version $version"
exec runc "\$@"
END
  finish "$work" nvidia-container-toolkit-base "$version-1"
  begin "$work"
  finish "$work" nvidia-container-toolkit "$version-1" "libnvidia-container-tools (>= $version-1), nvidia-container-toolkit-base (= $version-1)"
done
