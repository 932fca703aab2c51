//! The guard of a reboot: what the host restores by itself if a boot does not bring it back.
//!
//! Before the reboot, the host gets a directory `/var/lib/forge/guard/RUN-boot` with a program, and a timer of systemd
//! that starts with the next boot, before most units. A new session of forge confirms the boot. Without one, the program
//! judges the boot when the time is over: did systemd finish it, does a unit for logins run, does the gateway answer, as
//! before the reboot? If not, it restores files, units, images and the boot menu, and reboots.
//!
//! The state is the name of one file: `armed`, then `confirmed`, or `restoring` and `restored`.

use super::boot_fallback::{FALLBACK_ARGUMENT, REMOVE_FALLBACK, add_fallback};
use super::record::STATE_DIR;
use super::undo_journal::{FormerRecord, FormerState, build_former_records_script};
use crate::model::{BootMenuUndo, StepId, UnitAtBoot, UntrustedText, format_guard_time};
use crate::script::{ShellFragment, safe_path};
use std::collections::BTreeSet;

/// What a guard of a reboot restores.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BootRestoration {
    /// The steps whose changes it takes back.
    pub steps: Vec<StepId>,
    /// Files and links, each once.
    pub files: Vec<FormerFile>,
    /// Whether units start at boot, each once.
    pub units: Vec<UnitAtBoot>,
    /// Initramfs images with the copy from before, each once.
    pub images: Vec<(String, String)>,
    /// The changes of the boot menu, the last one first.
    pub menu: Vec<BootMenuUndo>,
    /// The records of the steps.
    pub records: Vec<FormerRecord>,
}

/// A path in the state before a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormerFile {
    /// The absolute path.
    pub path: String,
    /// What there was.
    pub state: FormerState,
    /// The path of the copy, if there was a file or a link.
    pub copy: String,
}

/// The guard of one reboot.
#[derive(Clone, Debug, PartialEq)]
pub struct BootGuard {
    cluster: String,
    run: String,
    seconds: u64,
    restoration: BootRestoration,
}

/// What a host answers after a reboot.
#[derive(Clone, Debug, PartialEq)]
pub enum BootGuardAnswer {
    /// The boot is confirmed.
    Confirmed,
    /// The host is restoring the state before, and reboots.
    Busy,
    /// The host restored the state before.
    Restored(BootGuardOutcome),
    /// There is no guard.
    Missing,
}

/// What the guard of a reboot saw and did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BootGuardOutcome {
    /// Why the boot counted as failed: a lowercase fragment.
    pub why: UntrustedText,
    /// What it could not restore, as its programs printed it.
    pub problems: UntrustedText,
}

impl BootRestoration {
    /// Reports whether there is nothing that another boot would do differently.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.units.is_empty() && self.images.is_empty() && self.menu.is_empty()
    }
}

impl BootGuard {
    /// Builds the guard of the next reboot in a run.
    pub fn new(cluster: &str, run: &str, seconds: u64, restoration: BootRestoration) -> Self {
        Self { cluster: cluster.to_owned(), run: run.to_owned(), seconds, restoration }
    }

    /// Returns the seconds after the boot at which the host judges it.
    pub fn seconds(&self) -> u64 {
        self.seconds
    }

    /// Returns the steps whose changes it takes back.
    pub fn steps(&self) -> &[StepId] {
        &self.restoration.steps
    }

    fn folder(&self) -> String {
        format!("{STATE_DIR}/guard/{}-boot", self.run)
    }

    /// Returns a subshell that arms the guard. It exits with a non-zero status if the host cannot do so.
    pub fn build_arm_script(&self) -> ShellFragment {
        let steps: String = self.restoration.steps.iter().map(|step| step.to_string() + "\n").collect();
        let script = ShellFragment::new()
            .code("(\nset --")
            .word(self.folder())
            .number(self.seconds)
            .word(format_guard_time(self.seconds))
            .word(steps)
            .nested_word(self.build_restore_program())
            .word(self.fallback_word())
            .code(ARM);
        add_fallback(script, &self.run, &self.restoration.images)
    }

    /// Returns the kernel argument by which the fallback boot of this run is recognized.
    fn fallback_word(&self) -> String {
        format!("{FALLBACK_ARGUMENT}={}", self.run)
    }

    fn build_restore_program(&self) -> ShellFragment {
        let parts = &self.restoration;
        let start = ShellFragment::new().code("set --").word(self.folder()).word(self.fallback_word()).code(JUDGE);
        let start = start.code(safe_path::ENTER_DIRECTORY).code(RESTORE_FUNCTIONS);
        // Only a unit whose file still exists can be disabled.
        let units = |script: ShellFragment, enabled: bool, verb: &'static str| {
            let own = parts.units.iter().filter(|unit| unit.enabled == enabled);
            own.fold(script, |script, unit| script.code("set_unit ").code(verb).word(&unit.name).code("\n"))
        };
        let script = units(start, false, "disable");
        let script = parts.files.iter().fold(script, |script, file| {
            script.code("( put").word(&file.path).word(file.state.as_word()).word(&file.copy).code(" )\n")
        });
        let script = parts
            .images
            .iter()
            .fold(script, |script, (image, copy)| script.code("( put_image").word(image).word(copy).code(" )\n"));
        let script = units(script, true, "enable");
        let mut menus = BTreeSet::new();
        let script = parts.menu.iter().fold(script, |script, menu| match menu {
            BootMenuUndo::UpdateGrub if !menus.insert("update-grub") => script,
            BootMenuUndo::UpdateGrub => script.code("set_menu update-grub\n"),
            BootMenuUndo::Grubby { remove, add } => {
                script.code("set_arguments").word(remove.join(" ")).word(add.join(" ")).code("\n")
            }
        });
        script
            .code("(\n")
            .append_fragment(build_former_records_script(&self.cluster, &parts.records))
            .code(")\n")
            .code(REMOVE_FALLBACK)
            .code(REMOVE_UNITS)
            .code(REBOOT_AGAIN)
    }

    /// Returns the script that confirms the boot over a new session, or prints what the guard did.
    pub fn build_confirm_script(&self) -> ShellFragment {
        let start = ShellFragment::new().code("(\nset --").word(self.folder()).word(self.fallback_word());
        start.code(CONFIRM).code(REMOVE_FALLBACK).code(REMOVE_UNITS).code(FORGET)
    }
}

/// Returns the script that confirms a boot which a guard of an earlier run waits for, and removes the guard of a reboot
/// that did not happen: the session that runs it shows that the host can be reached.
pub fn build_earlier_boot_script() -> ShellFragment {
    ShellFragment::new()
        .code("for d in /var/lib/forge/guard/*-boot; do\n[ -e \"$d/armed\" ] || [ -e \"$d/confirmed\" ] || continue\n")
        .code("mv -T -- \"$d/armed\" \"$d/confirmed\" 2>/dev/null\n[ -e \"$d/confirmed\" ] || continue\n(")
        .code(REMOVE_FALLBACK)
        .code(REMOVE_UNITS)
        .code("systemctl --quiet stop forge-boot-guard.timer; systemctl daemon-reload) >/dev/null 2>&1\n")
        .code("rm -rf -- \"$d\"\ndone\n")
}

/// Parses what [`BootGuard::build_confirm_script`] prints.
pub fn parse_boot_answer(printed: &str) -> Option<BootGuardAnswer> {
    let mut lines = printed.lines();
    Some(match lines.next()? {
        "confirmed" => BootGuardAnswer::Confirmed,
        "busy" => BootGuardAnswer::Busy,
        "missing" => BootGuardAnswer::Missing,
        "restored" => {
            let (mut why, mut problems) = (String::new(), Vec::new());
            for line in lines {
                match line.split_once(' ')? {
                    ("why", text) => text.clone_into(&mut why),
                    ("problem", text) => problems.push(text),
                    _ => return None,
                }
            }
            let problems = problems.join("\n").into();
            BootGuardAnswer::Restored(BootGuardOutcome { why: why.into(), problems })
        }
        _ => return None,
    })
}

/// Prints the groups of the undo journal that changed the host since its boot, as fields that end with NUL: `group` with
/// a number, `json`, then `before STATE PATH`. Without systemd, or in a sandbox, a reboot has no guard: nothing is printed.
pub const READ_BOOT_GROUPS: &str = r#"
[ -d /run/systemd/system ] && [ ! -e /run/forge-sandbox.kind ] || exit 0
IFS= read -r boot </proc/sys/kernel/random/boot_id || exit 1
for f in /var/lib/forge/undo/*/*.boot; do
  [ -e "$f" ] && IFS= read -r own <"$f" && [ "$own" = "$boot" ] && [ -s "${f%.boot}.json" ] || continue
  g=${f%.boot}
  printf 'group\0%s\0json\0%s\0' "${g##*/}" "$(cat "$g.json")" || exit 1
  [ ! -f "$g.before" ] || cat "$g.before" || exit 1
done
exit 0
"#;

/// `$1` folder, `$2` seconds, `$3` their text, `$4` steps, `$5` the program, `$6` the kernel argument of a fallback. A
/// fallback boot is taken back at once. A gateway that does not answer now proves
/// nothing later.
const ARM: &str = r#"
fail() { printf 'the reboot cannot be guarded: %s\n' "$*" >&2; exit 1; }
d=$1 seconds=$2 fallback=$6
umask 077
rm -rf -- "${d%/*}"/*-boot
mkdir -p -- "$d" || fail "cannot make $d"
IFS= read -r boot </proc/sys/kernel/random/boot_id || fail "the boot id could not be read"
printf '%s\n' "$3" >"$d/time" && printf %s "$4" >"$d/steps" && printf %s "$5" >"$d/restore" &&
  printf '%s\n' "$boot" >"$d/boot" && : >"$d/problems" && : >"$d/logins" || fail "cannot write to $d"
for unit in ssh.service sshd.service ssh.socket sshd.socket; do
  ! systemctl --quiet is-active "$unit" || printf '%s\n' "$unit" >>"$d/logins"
done
if command -v ip >/dev/null && command -v ping >/dev/null; then
  set -- $(ip -4 route show default 2>/dev/null | sed -n 's/.* via \([^ ]*\).*/\1/p') \
    $(ip -6 route show default 2>/dev/null | sed -n 's/.* via \([^ ]*\) dev \([^ ]*\).*/\1%\2/p')
  for gateway; do
    ping -c 1 -W 2 -q "$gateway" >/dev/null 2>&1 && printf '%s\n' "$gateway" >"$d/gateway" && break
  done
fi
umask 022
units=/etc/systemd/system
printf '%s\n' '[Unit]' 'Description=forge: judges the boot and restores the state before if it did not finish' \
  DefaultDependencies=no IgnoreOnIsolate=yes RequiresMountsFor=/var/lib/forge \
  '[Service]' Type=oneshot "ExecStart=/bin/sh $d/restore" >"$units/forge-boot-guard.service" &&
  printf '%s\n' '[Unit]' 'Description=forge: waits for the confirmation of the boot' \
    DefaultDependencies=no IgnoreOnIsolate=yes \
    '[Timer]' "OnActiveSec=$seconds" AccuracySec=1s >"$units/forge-boot-guard.timer" ||
  fail "cannot write forge-boot-guard.timer"
printf '%s\n' '[Unit]' 'Description=forge: restores the state before, as the machine booted the fallback' \
  DefaultDependencies=no IgnoreOnIsolate=yes RequiresMountsFor=/var/lib/forge After=systemd-remount-fs.service \
  "ConditionKernelCommandLine=$fallback" \
  '[Service]' Type=oneshot "ExecStart=/bin/sh $d/restore" >"$units/forge-boot-guard-fallback.service" ||
  fail "cannot write forge-boot-guard-fallback.service"
wants=$units/sysinit.target.wants
mkdir -p -- "$wants" || fail "cannot make $wants"
for unit in forge-boot-guard.timer forge-boot-guard-fallback.service; do
  ln -sfn "../$unit" "$wants/$unit" || fail "cannot enable $unit"
done
: >"$d/armed" && sync -- "$d"/* "$units"/forge-boot-guard* "$wants" "$units" "$d" "${d%/*}" || fail "cannot sync $d"
) || exit 1
"#;

/// Ends if the host is still in the boot before the reboot. An interrupted restoration goes on.
const JUDGE: &str = r#"
d=$1 fallback=$2
exec </dev/null
umask 077
LC_ALL=C PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export LC_ALL PATH
fail() { printf '%s\n' "$*" >&2; exit 1; }
say_why() { printf '%s\n' "$*" >"$d/why"; }
is_fallback() {
  IFS= read -r arguments </proc/cmdline
  case " $arguments " in *" $fallback "*) ;; *) return 1 ;; esac
}
judge() {
  ! is_fallback || { say_why "the machine booted the fallback entry of GRUB, as before the run"; return 1; }
  state=$(systemctl is-system-running 2>/dev/null)
  case $state in
    running | degraded) ;;
    *) waits=$(systemctl list-jobs --no-legend --no-pager 2>/dev/null |
        awk '$2 !~ /^forge-boot-guard/ && $4 == "running" { printf "%s%s", sep, $2; sep = ", " }')
      say_why "systemd reports \`${state:-nothing}\`${waits:+ and waits for $waits}"
      return 1 ;;
  esac
  if [ -s "$d/logins" ]; then
    found=
    while IFS= read -r unit; do ! systemctl --quiet is-active -- "$unit" || found=yes; done <"$d/logins"
    [ -n "$found" ] || { say_why "none of $(tr '\n' ' ' <"$d/logins")runs"; return 1; }
  fi
  if [ -s "$d/gateway" ]; then
    IFS= read -r gateway <"$d/gateway"
    ping -c 3 -W 2 -q "$gateway" >/dev/null 2>&1 || { say_why "the gateway $gateway does not answer"; return 1; }
  fi
}
exec 9>/run/forge-boot-guard.lock
flock -n 9 || exit 0
# Early in a boot, the file system is still read-only.
tries=0
until [ -w "$d" ] || [ "$tries" -ge 300 ]; do tries=$((tries + 1)); sleep 1; done
IFS= read -r old <"$d/boot"
IFS= read -r new </proc/sys/kernel/random/boot_id
[ "$old" != "$new" ] || exit 0
if [ -e "$d/armed" ] && judge; then
  mv -T -- "$d/armed" "$d/confirmed"
  exit
fi
mv -T -- "$d/armed" "$d/restoring" 2>/dev/null || [ -e "$d/restoring" ] || exit 0
exec 2>>"$d/problems"
"#;

/// `put PATH STATE COPY` restores a path; new content gets its name in one step, from a directory that only this account
/// can enter. systemd may be unable to answer, so units are enabled and disabled without it.
const RESTORE_FUNCTIONS: &str = r#"
put() {
  case $2 in
    none) [ -e "$1" ] || [ -L "$1" ] || exit 0
      enter "${1%/*}"
      rm -f -- "./${1##*/}" || fail "cannot remove $1" ;;
    *) [ -e "$3" ] || [ -L "$3" ] || fail "there is no copy of $1"
      enter "${1%/*}"
      box=$(mktemp -d "./.${1##*/}.forge-XXXXXX") && cd -P -- "$box" && [ -O . ] ||
        fail "cannot make a directory next to $1"
      cp -a -T -- "$3" ./new && { [ -L ./new ] || sync -- ./new; } && mv -f -T -- ./new "../${1##*/}" ||
        fail "cannot restore $1"
      cd .. && rmdir -- "$box" || fail "cannot remove $box next to $1" ;;
  esac
}
put_image() {
  [ -s "$2" ] || fail "there is no copy of $1"
  cp -p -- "$2" "$2.part" && sync -- "$2.part" && mv -f -T -- "$2.part" "$1" && sync -- "${1%/*}/" ||
    fail "cannot restore $1"
}
set_unit() { SYSTEMD_OFFLINE=1 timeout 60 systemctl --quiet "$1" -- "$2"; }
set_arguments() {
  remove=$1 add=$2
  set -- --update-kernel=ALL
  [ -z "$remove" ] || set -- "$@" "--remove-args=$remove"
  [ -z "$add" ] || set -- "$@" "--args=$add"
  set_menu grubby "$@"
}
set_menu() { said=$(timeout 300 "$@" 2>&1) || printf '%s failed: %s\n' "$1" "$said" >&2; }
"#;

const REMOVE_UNITS: &str = r#"
rm -f -- /etc/systemd/system/forge-boot-guard* /etc/systemd/system/sysinit.target.wants/forge-boot-guard*
"#;

/// A boot that hangs may also hang its end: then the reboot is forced.
const REBOOT_AGAIN: &str = r#"
mv -T -- "$d/restoring" "$d/restored"
sync
exec 2>/dev/null
systemctl --no-block reboot
sleep 90
systemctl --force reboot
sleep 30
systemctl --force --force reboot
"#;

/// `$1` folder, `$2` the kernel argument of a fallback: the session of such a boot confirms nothing.
const CONFIRM: &str = r#"
d=$1
IFS= read -r arguments </proc/cmdline
case " $arguments " in *" $2 "*) [ ! -e "$d/armed" ] || { echo busy; exit 0; } ;; esac
mv -T -- "$d/armed" "$d/confirmed" 2>/dev/null
if [ -e "$d/restored" ]; then
  printf 'restored\n'
  [ ! -s "$d/why" ] || sed 's/^/why /' "$d/why"
  tail -n 5 -- "$d/problems" | sed 's/^/problem /'
elif [ -e "$d/restoring" ]; then echo busy; exit 0
elif [ -e "$d/confirmed" ]; then echo confirmed
elif [ -e "$d/armed" ]; then
  printf 'the boot cannot be confirmed: cannot write to %s\n' "$d" >&2
  exit 1
else echo missing; exit 0; fi
systemctl --quiet stop forge-boot-guard.timer 2>/dev/null
"#;

const FORGET: &str = r#"
systemctl daemon-reload
rm -rf -- "$d"
)
"#;

#[cfg(test)]
mod tests;
