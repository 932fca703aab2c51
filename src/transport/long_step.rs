//! Long steps: processes on the host that outlive the link.

use super::{HostPaths, HostWriter, TransportError, TransportErrorKind, UnitName};
use crate::model::SecretStore;
use crate::script::{ScriptToken, ShellFragment, ShellScript};
use std::time::Duration;

/// A long step, ready to start.
#[derive(Clone, Debug)]
pub struct LongStep {
    /// The name under which the host knows the step: at most one step of that name is started.
    pub unit: UnitName,
    /// Shell code as in an acting script: inside a function, with `$FORGE_T` set.
    pub body: ShellFragment,
    /// The token that the step's script sees as `$FORGE_T`.
    pub token: ScriptToken,
    /// Timeout: the host stops the step after this time; its status is 124 then. Whole seconds.
    pub limit: Duration,
}

/// The result of a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LongStepStart {
    /// It is running now.
    New,
    /// It was started before under this name, and is running or has ended: follow it.
    Already,
}

/// Timeout of starting.
const START_LIMIT: Duration = Duration::from_secs(60);
/// Printed on stdout if the unit existed before.
const ALREADY_STARTED: &str = "already\n";

/// Runs the step and saves its status. `$1` folder, `$2` log, `$3` limit, `$4` set if the lock is inherited.
/// Holds `alive` locked on descriptor 9 until the result is written, so a step whose lock is free and that has no
/// result did not end by itself. The step's own processes do not inherit the lock; otherwise a daemon that the step
/// starts would hold it forever.
/// The result is written under another name and renamed, so that no reader sees half of it.
pub(super) const RUNNER_SCRIPT: &str = r#"umask 077
[ -n "${4-}" ] || { exec 9<>"$1/alive" && flock 9; }
echo "$$" >"$1/pid"
timeout -k 30 "$3" sh "$1/script" </dev/null >>"$2" 2>&1 9>&-
s=$?
rm -f "$1/script"
printf '%s\n' "$s" >"$1/result.new" && mv -f "$1/result.new" "$1/result"
"#;

/// `$1` folder, `$2` log, `$3` limit, `$4` unit, `$5` script, `$6` runner. The folder is the claim: the process that
/// creates it starts the step. A folder without `started` is left from a start that was cut off before the step could
/// run: it is recreated.
///
/// Without systemd, the lock is taken before the process is created, which inherits it: it is held without a gap,
/// however late the process is scheduled. systemd-run (`--service-type=exec`) returns once the unit is active, and the
/// unit stays active until the runner ends. If systemd-run fails, its job may still be queued on a slow host: only a
/// unit that is known not to run is given up.
pub(super) const START_SCRIPT: &str = r#"mkdir -p "${1%/*}" "${2%/*}" || exit 1
chmod 700 "${1%/*}" || exit 1
if [ -d "$1" ]; then
  if [ -e "$1/started" ]; then printf 'already\n'; exit 0; fi
  rm -rf "$1"
fi
mkdir "$1" && printf %s "$5" >"$1/script" && printf %s "$6" >"$1/run" && : >"$1/alive" && : >>"$2" || exit 1
if [ -d /run/systemd/system ]; then
  : >"$1/started"
  systemd-run --unit="$4" --collect --quiet --description="forge: long step" --service-type=exec \
    /bin/sh "$1/run" "$1" "$2" "$3" >&2 || {
    s=$?
    case $(timeout 10 systemctl show --property=ActiveState --value "$4.service") in
      inactive | failed) timeout 20 systemctl --quiet stop "$4.service"; rm -rf "$1"; exit "$s" ;;
    esac
  }
else
  exec 9<>"$1/alive" && flock 9 && : >"$1/started" || exit 1
  setsid sh "$1/run" "$1" "$2" "$3" held </dev/null >/dev/null 2>&1 &
  exec 9>&-
fi
"#;

/// The start of a step's script: it sets the same environment as an acting script.
const PRELUDE: &str = "exec </dev/null\nset -u\numask 077\n\
    LC_ALL=C TZ=UTC PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=${HOME:-/root}\n\
    export LC_ALL TZ PATH HOME\nunset LANGUAGE TAR_OPTIONS POSIXLY_CORRECT\nFORGE_T=$1\n";

impl LongStep {
    /// Returns the acting script that starts the step.
    fn start_script(&self, paths: &HostPaths) -> ShellScript {
        let step = ShellFragment::new()
            .code("forge_main() {\n")
            .code(PRELUDE)
            .append_fragment(self.body.clone())
            .code("\n}\nforge_main")
            .word(self.token.as_str())
            .code("\n");
        let body = ShellFragment::new()
            .code("set --")
            .word(step_folder(paths, &self.unit))
            .word(step_log_path(paths, &self.unit))
            .number(self.limit.as_secs().max(1))
            .word(self.unit.as_str())
            .nested_word(step)
            .word(RUNNER_SCRIPT)
            .code("\n")
            .code(START_SCRIPT);
        ShellScript { body, token: self.token.clone(), limit: START_LIMIT }
    }
}

pub(super) fn step_folder(paths: &HostPaths, unit: &UnitName) -> String {
    format!("{}/{unit}", paths.run)
}

pub(super) fn step_log_path(paths: &HostPaths, unit: &UnitName) -> String {
    format!("{}/{unit}.log", paths.log)
}

impl HostWriter {
    /// Starts a long step as a transient systemd unit, or as a detached process if systemd is not running. The step
    /// continues if the link or forge is gone. Starting it twice under one name starts it once.
    ///
    /// # Errors
    /// Those of [`HostWriter::run_acting_script`], and [`LongStart`](TransportErrorKind::LongStart) if the host cannot start it.
    pub async fn start_long_step(
        &self,
        step: &LongStep,
        secrets: &SecretStore,
    ) -> Result<LongStepStart, TransportError> {
        let script = step.start_script(&self.session().target().paths);
        let done = self.run_acting_script(&script, secrets, None).await?;
        match (done.status, done.stdout == ALREADY_STARTED.as_bytes()) {
            (0, true) => Ok(LongStepStart::Already),
            (0, false) => Ok(LongStepStart::New),
            (status, _) => Err(TransportError::new(
                TransportErrorKind::LongStart,
                format!("the host could not start the unit `{}`: exit status {status}", step.unit),
            )
            .with_output(&done.stderr)
            .with_sent(true)),
        }
    }

    /// Removes the files of a finished long step from the folder of running steps. Its log stays.
    ///
    /// # Errors
    /// Those of [`HostWriter::run_acting_script`].
    pub async fn forget_long_step(
        &self,
        unit: &UnitName,
        token: &ScriptToken,
        secrets: &SecretStore,
    ) -> Result<(), TransportError> {
        let folder = step_folder(&self.session().target().paths, unit);
        let body = ShellFragment::new().code("set --").word(folder).code("\n[ ! -e \"$1/result\" ] || rm -rf \"$1\"\n");
        let script = ShellScript { body, token: token.clone(), limit: START_LIMIT };
        self.run_acting_script(&script, secrets, None).await.map(drop)
    }
}
