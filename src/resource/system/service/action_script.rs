//! The commands of a service change. They succeed only if the unit stays up.

use super::declaration::ServiceResource;
use super::diff::{ProcessChange, ServiceDiff};
use super::renewal::content_digest;
use crate::resource::AssessmentContext;
use crate::resource::shared::shell;
use crate::script::ShellFragment;

/// Reads `$unit`.
const LIBRARY: &str = r#"
unit=$1
say() { printf 'forge: %s\n' "$*" >&2; }
# Runs in a subshell of its own.
show() { exec systemctl show -p "$1" --value -- "$unit"; }
begun= ended=
read -r begun ended </proc/uptime || :
# The log of this change only: lines of earlier starts would hide the reason. A relative time also holds on a host whose
# clock was set.
report() {
  systemctl status --no-pager --full --lines=0 -- "$unit" >&2
  if read -r ended rest </proc/uptime && [ -n "$begun" ]; then
    set -- "$*" "--since=-$((${ended%.*} - ${begun%.*} + 1))s"
  fi
  journalctl -q --no-pager -o short-iso -n 20 ${2+"$2"} -u "$unit" >&2
  fail "$1"
}
# Before version 248 systemd tells its start times in whole seconds only.
apart() {
  set -- $(systemctl --version)
  case ${2-} in *[!0-9]*|"") ;; *) if [ "$2" -ge 248 ]; then return 0; fi ;; esac
  sleep 1
}
nap() { sleep "$1" 2>/dev/null || sleep 1; }
# Sets `state`, `sub` and `now` (the current start) in one query.
query() {
  state= sub= now=
  for line in $(systemctl show -p ActiveState -p SubState -p InvocationID -- "$unit"); do
    case $line in
      ActiveState=*) state=${line#*=} ;;
      SubState=*) sub=${line#*=} ;;
      InvocationID=*) now=${line#*=} ;;
    esac
  done
}
# The same start must stay active for a second. A unit that is still starting is waited for; systemd's own
# start timeout ends that, and this loop after 300 s where there is none.
settled() {
  born= up=0 turns=0
  while [ "$turns" -lt 1500 ]; do
    turns=$((turns + 1))
    query
    case $state in
      active|reloading|refreshing)
        if [ -n "$born" ] && [ "$now" != "$born" ]; then report "$unit starts and dies again and again"; fi
        born=$now up=$((up + 1))
        if [ "$up" -gt 1 ]; then return 0; fi
        sleep 1
        continue ;;
      activating)
        if [ "$up" -gt 0 ] || [ "$sub" = auto-restart ]; then report "$unit started and died"; fi ;;
      deactivating) ;;
      *) report "$unit did not stay up: it is $state ($(show Result))" ;;
    esac
    nap 0.2
  done
  report "$unit is still starting after 300 s"
}
if [ "$(show NeedDaemonReload)" = yes ]; then systemctl daemon-reload || fail "daemon-reload failed"; fi
"#;

const ENABLE: &str = "systemctl enable -- \"$unit\" || fail \"cannot enable $unit\"\n";
/// systemd also removes the link of a unit whose file is elsewhere (`systemctl link`), and with it the unit. The link is
/// made again as it was: it may lead through other links.
const DISABLE: &str = r#"linked() {
  found= text=
  case $unit in *@*.*) set -- "$unit" "${unit%%@*}@.${unit##*.}" ;; *) set -- "$unit" ;; esac
  for name; do
    [ -L "/etc/systemd/system/$name" ] && file=$(readlink -f -- "/etc/systemd/system/$name") || continue
    case $file in
      */systemd/system/*|/dev/null) ;;
      */"$name") if [ -f "$file" ]; then found=/etc/systemd/system/$name; fi ;;
    esac
    if [ -n "$found" ]; then text=$(readlink -- "$found"); return; fi
  done
}
linked
elsewhere=$found target=$text
systemctl disable -- "$unit" || fail "cannot disable $unit"
linked
if [ -n "$elsewhere" ] && [ -z "$found" ]; then
  ln -s -- "$target" "$elsewhere" && systemctl daemon-reload || fail "cannot make the link $elsewhere again"
fi
"#;

/// systemd does not start a unit that failed too often until its failures are reset.
const START: &str = r#"systemctl reset-failed -- "$unit" 2>/dev/null
apart
systemctl start -- "$unit" || report "$unit did not start"
settled
"#;

const RESTART: &str = r#"systemctl reset-failed -- "$unit" 2>/dev/null
apart
systemctl restart -- "$unit" || report "$unit did not restart"
settled
"#;

const STOP: &str = "systemctl stop -- \"$unit\" || report \"$unit did not stop\"\n";

const THAW: &str = "systemctl thaw -- \"$unit\" || report \"$unit did not thaw\"\n";

/// The mark contains the start, the inputs, and the time at which the reload began, from the clock that sets ctimes. It
/// takes effect after the reload succeeded.
const RELOAD: &str = r#"mkdir -p /run/forge/reloaded || fail "cannot make /run/forge/reloaded"
mark=/run/forge/reloaded/$unit
: > "$mark.new" && began=$(stat -c %.9Z -- "$mark.new") || fail "cannot write $mark"
systemctl reload -- "$unit" || report "$unit did not reload"
settled
printf '%s %s %s\n' "$(show InvocationID)" "$2" "$began" > "$mark.new" && mv -fT -- "$mark.new" "$mark" ||
  fail "cannot write $mark"
"#;

pub(super) const EXPLAIN: &[(&str, &str)] = &[
    ("start-limit-hit", "the unit fails immediately each time it starts: see its log"),
    ("status=203/EXEC", "the program of the unit does not exist or is not executable"),
    ("status=217/USER", "the user of the unit does not exist: add a `user` step before this one"),
    ("status=226/NAMESPACE", "a path in the sandbox settings of the unit does not exist"),
    (
        "did not reload",
        "its log says why; a `validate` command in the `file` step keeps content that it rejects from being installed",
    ),
    ("Address already in use", "another process uses the port: run `ss -ltnp` on the host"),
];

/// Renders the commands that carry out `diff`. The library reloads the manager where that is needed.
pub(super) fn render_script(
    service: &ServiceResource,
    diff: &ServiceDiff,
    cx: &AssessmentContext<'_>,
) -> ShellFragment {
    let mut action = shell::open_action().word(&service.unit).word(content_digest(cx.inputs)).code(LIBRARY);
    if diff.masked {
        action = action.code(shell::UNMASK);
    }
    if let Some(enabled) = &diff.enabled {
        action = action.code(if enabled.to { ENABLE } else { DISABLE });
    }
    shell::close_action(match &diff.process {
        Some(ProcessChange::Start { .. }) => action.code(START),
        Some(ProcessChange::Stop { .. }) => action.code(STOP),
        Some(ProcessChange::Restart { .. }) => action.code(RESTART),
        Some(ProcessChange::Reload { .. }) => action.code(RELOAD),
        Some(ProcessChange::Thaw) => action.code(THAW),
        None => action,
    })
}
