//! A recipe's own checks: each separate, as data for `sh -c`, with its own limit and cap.

use super::query::{CHECK_LIMIT_S, CheckProbe, Probe};
use super::section::{ProbeSection, SectionEnd, SectionOutput};
use super::{Observation, ProbeOutput, ProbeReading, UnansweredReason};
use crate::model::UntrustedText;
use crate::script::ShellFragment;
use std::time::Duration;

/// Maximum bytes of a check's stdout that are kept.
pub(crate) const CHECK_OUTPUT_CAP: u64 = 262_144;

/// Maximum bytes of a check's text: the kernel accepts 131,072 as one argument, and secrets are inserted later.
pub(crate) const SCRIPT_CAP: usize = 98_304;

/// `forge_env KEY VALUE` …, then `forge_check USER CWD SCRIPT`. Text and values reach the check through its
/// environment, never through an argument. The mark on descriptor 5 shows that the check's own code was started; the
/// code gets neither the descriptor nor the token. `setpriv` instead of `runuser`: a login
/// session would be written to the host's logs.
const SNIPPET: &str = r#"forge_env() {
case $1 in ''|[0-9]*|*[!A-Za-z0-9_]*) return ;; esac
eval "$1=\$2; export $1"
}
forge_confined() { forge_confine=$1; }
forge_check() {
u=$1 d=$2
export FORGE_C="$3"
set -- sh -c 'cd -- "$1" && shift && printf :began: >&5 && exec 5>&- || exit
eval "unset FORGE_C
$FORGE_C"' sh "$d"
if [ -n "$u" ] && [ "$u" != "$(id -un)" ]; then
need setpriv; need getent
p=$(getent passwd -- "$u") || { printf 'forge-no-user\n' >&2; exit 1; }
h=${p%:*}
set -- setpriv --reuid="$u" --regid="$(id -g -- "$u")" --init-groups \
  env HOME="${h##*:}" SHELL="${p##*:}" USER="$u" LOGNAME="$u" "$@"
fi
[ -z "${forge_confine-}" ] || {
command -v unshare >/dev/null 2>&1 || { printf 'forge-unconfined `unshare` is missing\n' >&2; exit 1; }
set -- unshare --mount --propagation private sh -c "$forge_confine" sh "$@"
}
exec "$@"
}
"#;

/// Remounts everything read-only, in the check's own mount namespace, and provides a temporary place for the files it
/// needs while it runs. If a mount cannot be made read-only, the check ends before it starts. Requests to services use
/// sockets: those are not blocked.
const CONFINE: &str = r#"no() { printf 'forge-unconfined %s\n' "$1" >&2; exit 1; }
cat /proc/self/mountinfo | while read -r _ _ _ _ at as rest; do
case " ${rest#* - }" in ' autofs '*) continue ;; esac
case $as in rw|rw,*) ;; *) continue ;; esac
case $at in *'\'*) at=$(printf "$(printf %s "$at" | sed s/%/%%/g)") ;; esac
mount -o remount,bind,ro -- "$at" 2>/dev/null || [ ! -e "$at" ] || no "\`$at\` cannot be made read-only"
done || exit 1
if [ -d /dev/shm ] && mount -t tmpfs -o size=16m,mode=1777 tmpfs /dev/shm 2>/dev/null; then export TMPDIR=/dev/shm; fi
exec "$@""#;

/// How checks run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProbeCheckOptions {
    /// Timeout of checks that set none.
    pub limit: Option<Duration>,
    /// Whether each check runs without write access; on hosts that do not support that, it does not run at all.
    pub confined: bool,
}

impl From<Option<Duration>> for ProbeCheckOptions {
    fn from(limit: Option<Duration>) -> Self {
        Self { limit, confined: false }
    }
}

impl ProbeCheckOptions {
    fn limit_seconds(self) -> u64 {
        self.limit.map_or(CHECK_LIMIT_S, |limit| limit.as_secs_f64().ceil() as u64)
    }
}

/// Builds the section of a check; `None` for other probes.
pub(crate) fn build_section(probe: &Probe, checks: ProbeCheckOptions) -> Option<ProbeSection> {
    let Probe::Check(check) = probe else { return None };
    let CheckProbe { script, user, cwd, env, timeout_s, .. } = &**check;
    let mut section = ProbeSection::new("the check", vec![probe.clone()], read_answers);
    let set =
        |body: ShellFragment, (key, value): &(String, String)| body.code("forge_env").word(key).word(value).code("\n");
    let start = match checks.confined {
        true => ShellFragment::new().code(SNIPPET).code("forge_confined").word(CONFINE).code("\n"),
        false => ShellFragment::new().code(SNIPPET),
    };
    let body = env.iter().fold(start, set);
    let body = body.code("forge_check").word(user.as_deref().unwrap_or(""));
    if checks.confined {
        section.read = read_confined_answers;
    }
    section.body = section.body.append_fragment(body.word(cwd.as_deref().unwrap_or("/")).word(script));
    section.timeout_s = timeout_s.unwrap_or(checks.limit_seconds()).max(1);
    section.cap = CHECK_OUTPUT_CAP;
    section.foreign = true;
    Some(section)
}

fn read_answers(section: &ProbeSection, raw: &SectionOutput, out: &mut Observation) {
    for probe in &section.probes {
        out.insert(probe.clone(), read_answer(section, raw, probe).map(ProbeReading::Output));
    }
}

/// The C library's text for `EROFS` under `LC_ALL=C`.
const READ_ONLY_ERROR: &str = "Read-only file system";

/// Reads the answers of checks in the read-only view. A check that could not write there has not answered: outside of the
/// view it may have another result.
fn read_confined_answers(section: &ProbeSection, raw: &SectionOutput, out: &mut Observation) {
    for probe in &section.probes {
        let answer = read_answer(section, raw, probe).and_then(|output| match output.status {
            0 => Ok(output),
            _ if output.stderr.raw().contains(READ_ONLY_ERROR) => Err(write_refused_reason(&output)),
            _ => Ok(output),
        });
        out.insert(probe.clone(), answer.map(ProbeReading::Output));
    }
}

fn write_refused_reason(output: &ProbeOutput) -> UnansweredReason {
    let why = format!(
        "the check exited with {} after a write was refused; forge runs it in a read-only view, so it must not write",
        output.status
    );
    UnansweredReason::new(why).with_message(output.stderr.clone())
}

fn read_answer(section: &ProbeSection, raw: &SectionOutput, probe: &Probe) -> Result<ProbeOutput, UnansweredReason> {
    match raw.end {
        SectionEnd::Exited(status) if raw.began => Ok(build_output(raw, status)),
        SectionEnd::TimedOut => Err(raw.explain_missing(section)),
        SectionEnd::Exited(_) => Err(explain_not_started(section, raw, probe)),
    }
}

fn explain_not_started(section: &ProbeSection, raw: &SectionOutput, probe: &Probe) -> UnansweredReason {
    let said = String::from_utf8_lossy(&raw.stderr);
    match probe {
        _ if said.contains("forge-missing ") => raw.explain_missing(section),
        _ if said.contains("forge-unconfined ") || is_namespace_refused(&said) => unconfined_reason(&said),
        Probe::Check(check) if check.user.is_some() && said.contains("forge-no-user") => {
            let user = check.user.as_deref().unwrap_or_default();
            UnansweredReason::new(format!("user `{user}` does not exist"))
        }
        _ => UnansweredReason::new("the check could not be started").with_message(said.trim_end()),
    }
}

/// Reports whether the host refused to create a namespace for the check.
fn is_namespace_refused(said: &str) -> bool {
    said.lines().any(|line| line.starts_with("unshare: "))
}

fn unconfined_reason(said: &str) -> UnansweredReason {
    let why = said.lines().find_map(|line| line.strip_prefix("forge-unconfined ").or(line.strip_prefix("unshare: ")));
    UnansweredReason::new("unconfined: the host cannot run the check without write access")
        .with_message(why.unwrap_or(""))
}

/// Builds the output of a command that ended with `status`.
pub(crate) fn build_output(raw: &SectionOutput, status: i32) -> ProbeOutput {
    ProbeOutput {
        status,
        stdout: UntrustedText::from_bytes(&raw.stdout),
        stderr: UntrustedText::from_bytes(&raw.stderr),
        truncated: raw.truncated,
    }
}

#[cfg(test)]
mod tests;
