# The client of BeeGFS 7, reduced to the effects of its packages on a host: a kernel cannot load the module that it
# builds, and a mount is only a marker file. Based on ThinkParQ/beegfs: client_module/build/dist (configuration, init
# script, unit) and utils/scripts/beegfs-net. The connection lines are as recorded over RDMA by
# njutli/beegfs-production, the one of the management node as in githubfoam/beegfs-sandbox.
# shellcheck shell=bash disable=SC2154

for version in 7.4.5 7.4.6; do
  begin "$work"
  put "$work" etc/beegfs/beegfs-client.conf <<'END'
# --- Section 1.1: [Basic Settings] ---
sysMgmtdHost                 =

# --- Section 1.2: [Advanced Settings] ---
connUseRDMA                  = true
END
  printf 'buildArgs=-j8\n\nbuildEnabled=true\n' | put "$work" etc/beegfs/beegfs-client-autobuild.conf
  echo '/mnt/beegfs /etc/beegfs/beegfs-client.conf' | put "$work" etc/beegfs/beegfs-mounts.conf
  printf '/etc/beegfs/%s\n' beegfs-client.conf beegfs-client-autobuild.conf beegfs-mounts.conf | put "$work" DEBIAN/conffiles
  put "$work" etc/init.d/beegfs-client 755 <<'END'
#!/bin/bash
### BEGIN INIT INFO
# Provides:          beegfs-client
# Required-Start:
# Required-Stop:
# Default-Start:     2 3 4 5
# Default-Stop:      0 1 6
# Short-Description: BeeGFS Client
### END INIT INFO
set -e
MODULE=/lib/modules/$(uname -r)/updates/fs/beegfs_autobuild/beegfs.ko
mounted=/run/stand-ins/beegfs
setting() { sed -n "s/^$1 *= *//p" /etc/beegfs/beegfs-client.conf; }
build_beegfs() {
  echo "- BeeGFS module autobuild"
  headers=$(sed -n 's/^buildArgs=.*OFED_INCLUDE_PATH=\([^ ]*\).*/\1/p' /etc/beegfs/beegfs-client-autobuild.conf)
  if [ -n "$headers" ] && [ ! -d "$headers" ]; then echo "OFED_INCLUDE_PATH: $headers is not there" >&2 && exit 2; fi
  mkdir -p "${MODULE%/*}"
  /usr/lib/stand-ins/module license=GPL version=VERSION "vermagic=$(uname -r) SMP mod_unload modversions " >"$MODULE"
  touch "/lib/modules/$(uname -r)/modules.order" "/lib/modules/$(uname -r)/modules.builtin"
  depmod
}
case $1 in
start)
  echo "Starting BeeGFS Client: "
  modinfo beegfs >/dev/null 2>&1 || build_beegfs
  systemctl -q is-active beegfs-helperd || { echo "mount: the helper daemon does not answer" >&2 && exit 1; }
  mkdir -p "${mounted%/*}"
  echo "$(setting connUseRDMA) $(setting sysMgmtdHost)" >"$mounted"
  ;;
stop) rm -f "$mounted" ;;
rebuild) build_beegfs ;;
esac
END
  sed -i "s/VERSION/$version/" "$work/pkg/etc/init.d/beegfs-client"
  # Writes an object file with only the fields that modinfo prints.
  put "$work" usr/lib/stand-ins/module 755 <<'END'
#!/usr/bin/perl
my $info = join '', map { "$_\0" } @ARGV;
my $names = "\0.modinfo\0.shstrtab\0";
my $sections = 64 + length($info) + length($names);
print pack('a4C4x8SSLQQQLSSSSSS', "\x7fELF", 2, 1, 1, 0, 1, 62, 1, 0, 0, $sections, 0, 64, 0, 0, 64, 3, 2), $info, $names;
print pack('LLQQQQLLQQ', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
print pack('LLQQQQLLQQ', 1, 1, 2, 0, 64, length $info, 0, 0, 1, 0);
print pack('LLQQQQLLQQ', 10, 3, 0, 0, 64 + length $info, length $names, 0, 0, 1, 0);
END
  put "$work" lib/systemd/system/beegfs-client.service <<'END'
[Unit]
Description=Start BeeGFS Client
Requires=network-online.target
After=network-online.target openibd.service
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/etc/init.d/beegfs-client start
ExecStop=/etc/init.d/beegfs-client stop
[Install]
WantedBy=multi-user.target
END
  reload_postinst | put "$work" DEBIAN/postinst 755
  finish "$work" beegfs-client "20:$version"

  begin "$work"
  put "$work" lib/systemd/system/beegfs-helperd.service <<'END'
[Unit]
Description=BeeGFS Helper Server
[Service]
ExecStart=/bin/sleep infinity
[Install]
WantedBy=multi-user.target
END
  reload_postinst | put "$work" DEBIAN/postinst 755
  finish "$work" beegfs-helperd "20:$version"

  begin "$work"
  put "$work" usr/bin/beegfs-net 755 <<'END'
#!/bin/sh
read -r rdma manager 2>/dev/null </run/stand-ins/beegfs || { echo 'No active BeeGFS mounts found.' >&2 && exit 1; }
peer() { printf '%s\n=============\n%s [ID: %s]\n   Connections: %s; \n\n' "$@"; }
kind=TCP count=1
[ "$rdma" != true ] || kind=RDMA count=2
echo
peer mgmt_nodes "$manager" 1 'TCP: 1 (192.168.44.10:8008)'
peer meta_nodes meta01 1 "$kind: $count (192.168.44.20:8005)"
peer storage_nodes beegfs-slave1 101 "$kind: $count (10.3.2.6:8003)"
END
  finish "$work" beegfs-utils "20:$version"
done
