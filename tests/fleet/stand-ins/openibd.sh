# Loads and unloads an RDMA stack on simulated hardware: the loaded modules follow from the disk, as at boot
# (`hardware/power-on`). Its two output lines: field, as in public guides.
# shellcheck shell=bash disable=SC2154

begin "$work"
put "$work" etc/init.d/openibd 755 <<'END'
#!/bin/bash
### BEGIN INIT INFO
# Provides:          openibd
# Required-Start:    $local_fs
# Required-Stop:     $local_fs
# Default-Start:     2 3 4 5
# Default-Stop:      0 1 6
# Short-Description: RDMA stack
### END INIT INFO
set -e
loaded=/run/forge-hardware/module
case $1 in
stop)
  for module in mlx5_ib mlx5_core ib_uverbs ib_core; do rm -rf "${loaded:?}/$module"; done
  echo 'Unloading HCA driver:                                      [  OK  ]'
  ;;
start)
  for module in ib_core ib_uverbs mlx5_core mlx5_ib; do
    mkdir -p "$loaded/$module/parameters" && echo live >"$loaded/$module/initstate" && echo 0 >"$loaded/$module/refcnt"
    for field in version srcversion; do
      value=$(modinfo -F "$field" "$module") && [ -z "$value" ] || echo "$value" >"$loaded/$module/$field"
    done
  done
  mode=Y
  ! modprobe -c | grep -q '^options ib_core .*netns_mode=0' || mode=N
  echo "$mode" >"$loaded/ib_core/parameters/netns_mode"
  echo 'Loading HCA driver and Access Layer:                       [  OK  ]'
  ;;
esac
/srv/forge-hardware/power-on now
END
put "$work" lib/systemd/system/openibd.service <<'END'
[Unit]
Description=openibd - configure Mellanox devices
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/etc/init.d/openibd start
ExecStop=/etc/init.d/openibd stop
[Install]
WantedBy=sysinit.target
END
reload_postinst | put "$work" DEBIAN/postinst 755
finish "$work" ofed-scripts 3.2.0-1
