//! Programs of a simulated host whose results depend on its files: `disk` and `sys/module` contain the installed and
//! the loaded modules, `units` the running units, `etc` their configuration.

use super::super::simulated_project::SimulatedProject;

/// A unit's file contains its start time, the number of the start, and the content of `etc/demo.conf` at the start.
const SYSTEMCTL: &str = r#"#!/bin/sh
root=$(dirname "$0")/../..
show() {
at=; n=; s=inactive
if [ -e "$root/units/$1" ]; then s=active; { read -r at; read -r n; } <"$root/units/$1"; fi
printf '%s\n' "Id=$1" "Names=$1" LoadState=loaded "ActiveState=$s" SubState=running UnitFileState=enabled NeedDaemonReload=no \
  "InvocationID=$n" FragmentPath=/x DropInPaths= MainPID=0 "ActiveEnterTimestamp=$at" ExecMainStartTimestamp= Result=success \
  Type=simple RemainAfterExit=no CanReload=yes NextElapseUSecRealtime= ''
}
start() {
echo "start $1" >>"$root/log"
mkdir -p "$root/units"
{ date -u '+%a %Y-%m-%d %H:%M:%S.%6N UTC'; cat /proc/sys/kernel/random/uuid; cat "$root/etc/demo.conf"; } >"$root/units/$1" 2>/dev/null
case $1 in
openibd.service) rm -rf "$root/sys/module/nvidia_peermem" "$root/qos"; mkdir -p "$root/sys/module"; cp -r "$root/disk/mlx5_core" "$root/sys/module/" ;;
forge-roce.service) echo dscp >"$root/qos" ;;
esac
return 0
}
[ "$1" != -q ] || shift
what=$1
for unit; do :; done
case $what in
--version) echo 'systemd 252' ;;
show) case " $* " in
  *' --value '*) show "$unit" | sed -n "s/^$3=//p" ;;
  *) while [ "$1" != -- ]; do shift; done; shift; for unit; do show "$unit"; done ;;
  esac ;;
try-restart) [ ! -e "$root/units/$unit" ] || start "$unit" ;;
start | restart) start "$unit" ;;
reload) { head -n 2 "$root/units/$unit"; cat "$root/etc/demo.conf"; } >"$root/units/.new" && mv "$root/units/.new" "$root/units/$unit" ;;
stop) rm -f "$root/units/$unit"; echo "stop $unit" >>"$root/log" ;;
is-active) test -e "$root/units/$unit" ;;
is-system-running) echo running ;;
esac
"#;

const MODINFO: &str = r#"#!/bin/sh
root=$(dirname "$0")/../..
while [ "$#" -gt 1 ]; do case $1 in -F) field=$2; shift 2 ;; -k) shift 2 ;; *) shift ;; esac; done
[ -e "$root/disk/$1" ] || exit 1
case $field in filename) echo "$root/disk/$1/file" ;; *) cat "$root/disk/$1/$field" ;; esac
"#;

/// `live` contains the loaded modules.
const MODPROBE: &str = r#"#!/bin/sh
root=$(dirname "$0")/../..
for module; do :; done
case $1 in
-r) rm -rf "$root/sys/module/$module" ;;
*) mkdir -p "$root/sys/module/$module" && echo live >"$root/sys/module/$module/initstate" ;;
esac
"#;

/// Files of a test are created within one second: their creation order is derived from their modification times, which
/// can be set. Paths below the host's own `run` keep the name that forge requested.
const STAT: &str = r#"#!/bin/sh
root=$(cd "$(dirname "$0")/../.." && pwd)
for word; do shift; set -- "$@" "$(printf %s "$word" | sed s/%Z/%Y/g)"; done
/usr/bin/stat "$@" | sed "s|$root/run/forge|/run/forge|g"
"#;

const DKMS: &str = r#"#!/bin/sh
root=$(dirname "$0")/../..
case $1 in
status) echo 'nvidia/560.35.03, 6.1.0-9, x86_64: installed' ;;
install) touch "$root/disk/nvidia_peermem/file" ;;
esac
"#;

const MLNX_QOS: &str = r#"#!/bin/sh
root=$(dirname "$0")/../..
if [ -e "$root/qos" ]; then trust=dscp on=1; else trust=pcp on=0; fi
printf 'DCBX mode: OS controlled\nPriority trust state: %s\nPFC configuration:\n' "$trust"
printf '\tpriority    0   1   2   3   4   5   6   7\n\tenabled     0   0   0   %s   0   0   0   0   \n' "$on"
"#;

const ETHTOOL: &str = "#!/bin/sh\nprintf 'Pause parameters:\\nRX:\\t\\toff\\nTX:\\t\\toff\\n'\n";

const UNAME: &str = "#!/bin/sh\necho 6.1.0-9\n";

const UPDATE_INITRAMFS: &str = r#"#!/bin/sh
root=$(cd "$(dirname "$0")/../.." && pwd)
tar -cf "$root/.sim/boot/initrd.img-6.1.0-9" -C / "${root#/}/etc" 2>/dev/null
"#;

const LSINITRAMFS: &str = "#!/bin/sh\nexec tar -tf \"$1\"\n";

const UNMKINITRAMFS: &str = "#!/bin/sh\nmkdir -p \"$2\" && exec tar -xf \"$1\" -C \"$2\"\n";

const REBUILD: &str = "#!/bin/sh\ntouch \"$(dirname \"$0\")/../../disk/beegfs/file\"\n";

/// Loads the modules on disk; the clock advances by more than a test takes.
const REBOOT: &str = r#"root=$(dirname "$0")/..
echo reboot >>"$root/log"
rm -rf "$root/sys/module"; mkdir -p "$root/sys/module"
[ ! -e "$root/disk/mlx5_core" ] || cp -r "$root/disk/mlx5_core" "$root/sys/module/"
echo "btime $(($(date +%s) + 60))" >"$root/proc/stat"
mkdir -p "$root/units"
date -u -d '+1 minute' '+%a %Y-%m-%d %H:%M:%S.%6N UTC' >"$root/units/init.scope"
cat /proc/sys/kernel/random/uuid >"$root/.sim/boot-id"
"#;

/// Paths of the machine that runs the test, redirected below the host's own folder.
const PATHS: &str =
    "/sys/module\n/sys/bus/pci\n/lib/modules/\n/proc/modules\n/proc/stat\n/etc/default/grub\n/etc/init.d\n";

/// Installs these programs on a host that was booted long ago.
pub fn install_programs(stage: &SimulatedProject, host: &str) {
    let programs = [
        ("systemctl", SYSTEMCTL),
        ("modinfo", MODINFO),
        ("modprobe", MODPROBE),
        ("stat", STAT),
        ("dkms", DKMS),
        ("mlnx_qos", MLNX_QOS),
        ("ethtool", ETHTOOL),
        ("uname", UNAME),
        ("update-initramfs", UPDATE_INITRAMFS),
        ("lsinitramfs", LSINITRAMFS),
        ("unmkinitramfs", UNMKINITRAMFS),
    ];
    programs.iter().for_each(|(name, text)| stage.write_host_file(host, &format!(".sim/bin/{name}"), text));
    let files = [
        (".sim/reboot", REBOOT),
        (".sim/boot-id", "boot-1\n"),
        (".sim/cmdline", "ro\n"),
        (".sim/paths", PATHS),
        (".sim/boot/vmlinuz-6.1.0-9", ""),
        ("etc/init.d/beegfs-client", REBUILD),
        ("lib/modules/6.1.0-9/modules.dep", "updates/nvidia_peermem.ko: updates/nvidia.ko\n"),
        ("proc/modules", "nvidia_peermem 16384 0 - Live 0x0\n"),
        ("proc/stat", "btime 1000\n"),
        ("units/init.scope", "Sat 2020-11-21 09:48:48.480350 UTC\n"),
    ];
    files.iter().for_each(|(file, text)| stage.write_host_file(host, file, text));
}
