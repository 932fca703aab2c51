# The recipe of the base images and the package repositories, one per distribution, sourced by `fleet`.
# The digest of this file and of hardware/pack.sh names the images: any edit makes `fleet base` rebuild them.
# shellcheck shell=bash disable=SC2016   # package scripts are written without expansion on purpose

# shellcheck source=hardware/pack.sh
. "$HERE/../../hardware/pack.sh"

# The distributions of nodes, each with its suite.
declare -rA SUITES=([debian-11]=bullseye [debian-12]=bookworm [debian-13]=trixie)
readonly PACKAGES=systemd,systemd-sysv,dbus,openssh-server,sudo,iproute2,procps,kmod,pciutils,apt-utils,cron,curl,initramfs-tools,grub2-common,nftables${FORGE_FLEET_PACKAGES:+,$FORGE_FLEET_PACKAGES}
# Debian's packages of GPU, RDMA and cluster software. Nodes do not have them at first: their repository is
# /srv/forge-repo/trade.
readonly TRADE=(dkms linux-headers-amd64 rdma-core infiniband-diags ibsim-utils opensm nvidia-persistenced nvidia-smi unattended-upgrades libc6-dev containerd ufw firewalld netbase slurmctld slurmd munge nginx-light chrony ucx-utils)
# On Debian 12 also the programs of a host that installs with dnf: Debian 11 has no dnf-plugins-core.
readonly RPM_TOOLS=(dnf dnf-plugins-core rpm createrepo-c)
# What measures networks, memory and disks, on Debian 12: 27 MB, mostly libraries of fio.
readonly MEASURING=(openmpi-bin perftest fio sysbench)
# What `fleet distro` installs on a node of Debian 12 that claims to be another distribution.
readonly CLAIMED=(netplan.io dnf rpm createrepo-c dracut)
readonly PASSWORD='correct horse'

# Prints "URI KEYRING" of the machine's own Debian source, so that no mirror is hard-coded here. A mirror has all
# suites, and the keyring of a suite the keys of the older ones.
apt_source() {
  local uri release signed suite
  while read -r uri release signed; do
    for suite in "${SUITES[@]}"; do
      [[ $release == "$suite" ]] || continue
      # apt leaves the field unexpanded if the source has no keyring; some mirrors reject a double slash.
      [[ $signed == /* ]] || signed=/usr/share/keyrings/debian-archive-keyring.gpg
      echo "${uri%/} $signed"
      return
    done
  done < <(apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(SIGNED_BY)' 'Created-By: Packages')
  return 1
}

# Exports the proxies that apt uses, because debootstrap downloads with wget.
export_proxies() {
  local http='' https=''
  eval "$(apt-config shell http Acquire::http::Proxy https Acquire::https::Proxy)"
  [[ -z $http || $http == DIRECT ]] || export http_proxy=$http
  [[ -z $https || $https == DIRECT ]] || export https_proxy=$https
}

# Builds everything for the distribution $1 into the directory $2; $3 is a cache of downloaded packages, $4 the public
# key that logs in.
build_base() {
  local distribution=$1 out=$2 cache=$3 key=$4 suite=${SUITES[$1]} uri keyring source
  read -r uri keyring < <(apt_source) || true
  uri=${FORGE_FLEET_MIRROR:-${uri:-}}
  [[ $uri ]] || die "apt has no source of Debian on this machine" "set FORGE_FLEET_MIRROR to the URI of a mirror"
  keyring=${keyring:-/usr/share/keyrings/debian-archive-keyring.gpg}
  export_proxies
  mkdir -p "$cache"
  # Runs in its own mount namespace: debootstrap mounts /proc and /sys, and would leave them mounted if killed.
  unshare --mount debootstrap --variant=minbase --keyring="$keyring" --cache-dir="$cache" --include="$PACKAGES" \
    "$suite" "$out/root" "$uri" >"$out/debootstrap.log" 2>&1 ||
    { tail -n 20 "$out/debootstrap.log" >&2; die "debootstrap failed for $suite"; }
  source="deb [signed-by=$keyring] $uri $suite main contrib non-free"
  build_repo "$out/repo"
  local trade=("${TRADE[@]}")
  [[ $distribution != debian-12 ]] || trade+=("${RPM_TOOLS[@]}" "${MEASURING[@]}")
  download "$out/root" "$out/repo/trade" "$source" "${trade[@]}"
  [[ $distribution != debian-12 ]] || download "$out/root" "$out/repo/claimed" "$source" "${CLAIMED[@]}"
  configure_system "$out/root"
  configure_ssh "$out/root"
  configure_users "$out/root" "$key"
  configure_apt "$out/root" "$out/repo"
}

configure_system() {
  local etc=$1/etc unit
  rm -f "$etc/hostname" "$etc/resolv.conf" "$etc/machine-id" # debootstrap copies the machine's own
  cat >"$etc/systemd/network/10-fleet.network" <<'END'
[Match]
Name=host0
[Network]
LinkLocalAddressing=no
IPv6AcceptRA=no
# The address is in a drop-in of each node.
END
  mkdir -p "$etc/systemd/journald.conf.d"
  # In memory: `snapshot` detects writes in the node's upper directory, and a journal on disk would always change.
  printf '[Journal]\nStorage=volatile\n' >"$etc/systemd/journald.conf.d/fleet.conf"
  systemctl --root="$1" -q enable systemd-networkd.service
  for unit in apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service \
    fstrim.timer cron.service; do
    # Not every release has each of them.
    [[ ! -e $1/usr/lib/systemd/system/$unit ]] || systemctl --root="$1" -q disable "$unit"
  done
  # Masks static units that would clean up at a random moment, wait for a network without a route, or mount the real
  # machine's debug file systems into the node.
  for unit in systemd-tmpfiles-clean.timer systemd-networkd-wait-online.service dev-hugepages.mount \
    sys-kernel-debug.mount sys-kernel-tracing.mount; do
    ln -sf /dev/null "$etc/systemd/system/$unit"
  done
  echo force-unsafe-io >"$etc/dpkg/dpkg.cfg.d/fleet" # no fsync per file: nothing here survives a power cut anyway
  touch "$etc/.updated" "$1/var/.updated"            # saves the first boot the update for changed vendor files
}

configure_ssh() {
  local etc=$1/etc
  rm -f "$etc"/ssh/ssh_host_*
  cat >"$etc/ssh/sshd_config.d/fleet.conf" <<'END'
UseDNS no
MaxStartups 200
HostKey /etc/ssh/ssh_host_ed25519_key
END
}

configure_users() {
  local root=$1 key=$2 user
  authorize "$root" root /root "$key"
  for user in admin deploy plain; do
    chroot "$root" useradd --create-home --shell /bin/bash "$user"
    authorize "$root" "$user" "/home/$user" "$key"
  done
  echo "admin:$PASSWORD" | chroot "$root" chpasswd
  # admin_flag: otherwise the first sudo of a member of group `admin` creates a file in the home directory, which would
  # look like a write by forge.
  printf '%s\n' 'Defaults !admin_flag' 'admin ALL=(ALL:ALL) ALL' 'deploy ALL=(ALL:ALL) NOPASSWD: ALL' >"$root/etc/sudoers.d/fleet"
  chmod 440 "$root/etc/sudoers.d/fleet"
}

# Does not use /etc/skel: without /proc, useradd copies its directories empty and reports no error.
authorize() {
  install -Dm600 "$4" "$1$3/.ssh/authorized_keys"
  chmod 700 "$1$3/.ssh"
  chroot "$1" chown -R "$2:" "$3/.ssh"
}

configure_apt() {
  local root=$1 repo=$2
  rm -rf "$root"/var/lib/apt/lists/* "$root"/var/cache/apt/archives/*.deb "$root"/etc/apt/sources.list.d/*
  echo 'deb [trusted=yes] file:/srv/forge-repo ./' >"$root/etc/apt/sources.list"
  mkdir -p "$root/srv/forge-repo"
  unshare --mount sh -euc 'mount --bind "$1" "$2/srv/forge-repo"; chroot "$2" apt-get -qq update' sh "$repo" "$root"
}

# --- packages -----------------------------------------------------------------

build_repo() {
  local repo=$1 work version
  work=$(mktemp -d "$1.XXXX")
  mkdir -p "$repo"
  for version in 1.0-1 1.1-1 2.0-1; do demo_package "$work" "$version"; done
  tool_package "$work"
  slow_package "$work"
  broken_package "$work"
  begin "$work" && finish "$work" forge-dep 1.0 'forge-tool (>= 1.0)'
  for version in 1.0 1.1; do gpu_driver_package "$work" "$version"; gpu_fm_package "$work" "$version"; done
  mv "$work"/*.deb "$repo/"
  rm -rf "$work"
  index_repo "$repo"
  chmod -R a+rX "$repo"
}

# Downloads packages and their dependencies for the system in $1 to $2, from the source $3. Uses its own lists and state:
# those of this machine may be from another release.
download() {
  local root=$1 into=$2 source=$3 work
  shift 3
  work=$(mktemp -d "$into.XXXX")
  mkdir -p "$work/lists/partial" "$into/partial"
  echo "$source" >"$work/sources.list"
  local apt=(apt-get -qq -o Dir::Etc::sourcelist="$work/sources.list" -o Dir::Etc::sourceparts=/dev/null
    -o Dir::State::lists="$work/lists" -o Dir::State::status="$root/var/lib/dpkg/status" -o Dir::Cache::archives="$into"
    -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o APT::Sandbox::User=root)
  "${apt[@]}" update && "${apt[@]}" install -y --no-install-recommends --download-only "$@" >"$work/log" 2>&1 ||
    { tail -n 20 "$work/log" >&2; die "cannot download: $*" "their source is: $source"; }
  rm -rf "$work" "$into/partial" "$into/lock"
  index_repo "$into"
}

# A daemon that writes its loaded version and setting to /run/forge-demo/loaded. The conffile changes with 2.0. No
# maintainer script enables, starts or restarts it.
demo_package() {
  local work=$1 version=$2
  begin "$work"
  { echo '#!/bin/sh'; echo "version=$version"; cat <<'END'; } | put "$work" usr/sbin/forge-demo 755
[ "${1-}" != --version ] || { echo "$version"; exit 0; }
load() { . /etc/forge-demo.conf; echo "version=$version greeting=$greeting" >/run/forge-demo/loaded; }
trap load HUP
load
while :; do sleep 3600 & wait $! || :; kill $! 2>/dev/null; done
END
  put "$work" lib/systemd/system/forge-demo.service <<'END'
[Unit]
Description=Demo daemon of the test fleet
[Service]
ExecStart=/usr/sbin/forge-demo
ExecReload=kill -HUP $MAINPID
RuntimeDirectory=forge-demo
[Install]
WantedBy=multi-user.target
END
  if [[ $version == 2.* ]]; then echo greeting=welcome; else echo greeting=hello; fi | put "$work" etc/forge-demo.conf
  echo /etc/forge-demo.conf | put "$work" DEBIAN/conffiles
  reload_postinst | put "$work" DEBIAN/postinst 755
  finish "$work" forge-demo "$version"
}

tool_package() {
  begin "$1"
  printf '#!/bin/sh\necho forge-tool 1.0\n' | put "$1" usr/bin/forge-tool 755
  finish "$1" forge-tool 1.0
}

slow_package() {
  begin "$1"
  put "$1" DEBIAN/postinst 755 <<'END'
#!/bin/sh
seconds=$(cat /etc/forge-slow-seconds 2>/dev/null || echo 8)
i=0
while [ "$i" -lt "$seconds" ]; do i=$((i + 1)); echo "forge-slow: $i of $seconds"; sleep 1; done
END
  finish "$1" forge-slow 1.0
}

broken_package() {
  begin "$1"
  printf '#!/bin/sh\n[ -e /etc/forge-broken-ok ] || { echo "forge-broken: not configurable" >&2; exit 1; }\n' |
    put "$1" DEBIAN/postinst 755
  finish "$1" forge-broken 1.0
}

# A stand-in for a driver: a file is the installed version, and the copy by forge-gpu-load.service in /run is the loaded
# version.
gpu_driver_package() {
  begin "$1"
  echo "$2" | put "$1" usr/share/forge-gpu-driver/version
  put "$1" lib/systemd/system/forge-gpu-load.service <<'END'
[Unit]
Description=Load the stand-in driver
[Service]
Type=oneshot
RemainAfterExit=yes
RuntimeDirectory=forge-gpu
ExecStart=cp /usr/share/forge-gpu-driver/version /run/forge-gpu/loaded
END
  mkdir -p "$1/pkg/lib/systemd/system/multi-user.target.wants"
  ln -s ../forge-gpu-load.service "$1/pkg/lib/systemd/system/multi-user.target.wants/" # loaded at boot, like a module
  reload_postinst | put "$1" DEBIAN/postinst 755
  finish "$1" forge-gpu-driver "$2"
}

# A stand-in for the fabric manager: it refuses to start unless its version is the loaded driver's.
gpu_fm_package() {
  begin "$1"
  { echo '#!/bin/sh'; echo "version=$2"; cat <<'END'; } | put "$1" usr/sbin/forge-gpu-fm 755
loaded=$(cat /run/forge-gpu/loaded 2>/dev/null)
[ "$loaded" = "$version" ] || { echo "driver $loaded is loaded, $version is needed" >&2; exit 1; }
[ "${1-}" = --check ] || exec sleep infinity
END
  put "$1" lib/systemd/system/forge-gpu-fm.service <<'END'
[Unit]
Description=Stand-in fabric manager
After=forge-gpu-load.service
[Service]
ExecStartPre=/usr/sbin/forge-gpu-fm --check
ExecStart=/usr/sbin/forge-gpu-fm
[Install]
WantedBy=multi-user.target
END
  reload_postinst | put "$1" DEBIAN/postinst 755
  finish "$1" forge-gpu-fm "$2"
}
