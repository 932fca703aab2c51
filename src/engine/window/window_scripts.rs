//! The scripts that open and close a window and reboot a host.

use crate::plan::{HOLD_MARK, WINDOW_MARK};
use crate::probe::{CheckProbe, NEXT_KERNEL, Probe};
use crate::script::ShellFragment;

/// Delays the reboot so that the session ends first. Simulated hosts replace this command.
pub const REBOOT_COMMAND: &str = "systemd-run --quiet --collect -- sh -c 'sleep 1; systemctl reboot'";

/// The path of the boot id.
pub const BOOT_ID_PATH: &str = "/proc/sys/kernel/random/boot_id";

/// Stops units and prints their names. On failure it starts the stopped units again and removes the mark, unless the
/// mark existed before.
const OPEN_FUNCTIONS: &str = r#"
forge_file=/var/lib/forge/window.json
forge_stopped=
forge_was=
[ ! -e "$forge_file" ] || forge_was=1
forge_undo() {
  printf '%s\n' "$1" >&2
  for u in $forge_stopped; do systemctl start -- "$u"; done
  [ -n "$forge_was" ] || rm -f "$forge_file"
  exit 1
}
forge_stop() {
  s=$(systemctl show -p ActiveState --value -- "$1") || forge_undo "the state of \`$1\` cannot be read"
  case $s in inactive|failed) return 0 ;; esac
  systemctl stop -- "$1" || forge_undo "\`$1\` cannot be stopped"
  forge_stopped="$1 $forge_stopped"
  printf '%s\n' "$1"
}
forge_unload() {
  [ -e "/sys/module/$1/initstate" ] || grep -qs "^$1 " /proc/modules || return 0
  modprobe -r -- "$1" || forge_undo "the module \`$1\` cannot be unloaded"
}
forge_mark() {
  umask 077
  mkdir -p "${forge_file%/*}"
  t=${forge_file%/*}/.window.new
  printf %s "$1" >"$t" && sync "$t" && mv -f "$t" "$forge_file" || forge_undo "\`$forge_file\` cannot be written"
}
"#;

/// Returns the script that marks a window as open, stops units and unloads modules.
pub fn build_open_script(mark: &str, units: &[&str], modules: &[&str]) -> ShellFragment {
    let start = ShellFragment::new().code(OPEN_FUNCTIONS).code("forge_mark ").word(mark).code("\n");
    let stops = units.iter().fold(start, |script, unit| script.code("forge_stop ").word(*unit).code("\n"));
    modules.iter().fold(stops, |script, module| script.code("forge_unload ").word(*module).code("\n"))
}

/// Starts a unit that this run stopped, unless a step has already started it.
const START_FUNCTION: &str = r#"
forge_start() {
  if systemctl is-active --quiet -- "$1" || systemctl start -- "$1"; then return 0; fi
  printf '`%s` was stopped for the window and cannot be started\n' "$1" >&2
  exit 1
}
"#;

/// Returns the script that starts `units`, which this run stopped, unless steps have already started them.
pub fn build_start_script(units: &[String]) -> ShellFragment {
    let start = ShellFragment::new().code(START_FUNCTION);
    units.iter().fold(start, |script, unit| script.code("forge_start ").word(unit).code("\n"))
}

/// Returns the script that prints the host's clock and the mark of a hold, if it has one.
pub fn build_hold_script() -> ShellFragment {
    let mark = ShellFragment::new().code("set --").word(HOLD_MARK).code("\n");
    mark.code("[ ! -e \"$1\" ] && [ ! -L \"$1\" ] || { date +%s; [ ! -f \"$1\" ] || cat -- \"$1\" || :; }\n")
}

/// Returns the script that marks a window as closed.
pub fn build_close_script() -> ShellFragment {
    ShellFragment::new().code("rm -f -- ").word(WINDOW_MARK)
}

/// Returns the script that reboots and first prints the current boot id. The machine that forge runs on, identified by
/// `own`, its boot id, is never rebooted, whatever its name in the inventory is.
pub fn build_reboot_script(own: Option<&str>) -> ShellFragment {
    let read = ShellFragment::new().code("i=$(cat ").word(BOOT_ID_PATH).code(") || exit 1\n");
    let refused = |script: ShellFragment, own: &str| {
        let test = script.code("if [ \"$i\" = ").word(own).code(" ]; then echo ");
        test.word(OWN_MACHINE_REASON).code(" >&2; exit 1; fi\n")
    };
    let guarded = match own {
        Some(own) => refused(read, own),
        None => read,
    };
    guarded.code(READY_CHECK).code("printf '%s\\n' \"$i\"\n").code(REBOOT_COMMAND).code("\n")
}

/// Rejects a host in maintenance mode or already shutting down. A host without systemd cannot be checked.
const READY_CHECK: &str = r#"case $(systemctl is-system-running 2>/dev/null) in
maintenance) echo 'systemd is in maintenance mode' >&2; exit 1 ;;
stopping) echo 'the host is already shutting down' >&2; exit 1 ;;
esac
"#;

/// Why the machine that forge runs on is not rebooted.
pub const OWN_MACHINE_REASON: &str = "forge runs on this machine; apply from another machine or reboot it manually";

/// Prints the next kernel if it lacks an initramfs while another kernel in `/boot` has one. Hosts whose kernels need
/// none print nothing.
const MISSING_INITRAMFS_SCRIPT: &str = r#"
forge_has() {
for i in "/boot/initrd.img-$1" "/boot/initramfs-$1.img" "/boot/initrd-$1"; do [ ! -s "$i" ] || return 0; done
return 1
}
all=no
forge_next
if [ "$all" = yes ] || [ -z "$n" ] || forge_has "$n"; then exit 0; fi
for k in $v; do
if forge_has "$k"; then printf '%s\n' "$n"; exit 0; fi
done
exit 0
"#;

/// Returns the probe for a next kernel that cannot boot.
pub fn build_initramfs_probe() -> Probe {
    Probe::Check(Box::new(CheckProbe {
        id: "the initramfs of the kernel that boots next".to_owned(),
        script: format!("{NEXT_KERNEL}{MISSING_INITRAMFS_SCRIPT}"),
        user: None,
        cwd: None,
        env: Vec::new(),
        timeout_s: Some(20),
    }))
}

/// Ends processes with TERM, then KILL. Checks before each signal that the process still holds a device: a pid may have
/// been reused by another process meanwhile.
const EVICT_FUNCTIONS: &str = r#"
forge_holds() {
  [ -n "$(find "/proc/$1/fd" -maxdepth 1 \( -lname '*/dev/nvidia*' -o -lname '*/dev/infiniband/*' \) -xtype c 2>/dev/null)" ]
}
forge_end() {
  s=$1 n=0
  shift
  for p; do
    if forge_holds "$p"; then n=1; kill "-$s" "$p" 2>/dev/null; fi
  done
  return $n
}
forge_evict() {
  forge_end TERM "$@" && return 0
  for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    sleep 0.5
    forge_end 0 "$@" && return 0
  done
  forge_end KILL "$@" && return 0
  sleep 1
  return 0
}
forge_evict"#;

/// Returns the script that ends processes.
pub fn build_evict_script(pids: &[u32]) -> ShellFragment {
    pids.iter().fold(ShellFragment::new().code(EVICT_FUNCTIONS), |script, pid| script.code(" ").number(u64::from(*pid)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_script_uses_the_window_mark_path() {
        assert!(OPEN_FUNCTIONS.contains(&format!("forge_file={WINDOW_MARK}\n")));
    }
}
