//! Puts hosts on hold, so that apply leaves them alone, and releases them.

use super::cancel::CancelSignal;
use super::event::EventSender;
use super::exec::{ExecCommand, ExecHostResult, exec};
use super::run_options::RunOptions;
use crate::config::Project;
use crate::model::{ExitCode, HostName, HostOutcome, UntrustedText};
use crate::plan::{HOLD_MARK, HostHold, OngoingWork};
use crate::probe::{HoldMark, WRITER_SNIPPET, parse_writer};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use std::time::Duration;

/// Prints the former mark, and writes the new one, `$1`, atomically; an empty one removes it.
/// [`WRITER_SNIPPET`] follows a new mark: a run that begins later reads the mark.
const SCRIPT: &str = r#"set -e
f=$0 d=${0%/*}
[ "$(id -u)" = 0 ] || { echo 'root is required: set `connect: { sudo: … }` or log in as root' >&2; exit 1; }
[ ! -e "$f" ] || [ -f "$f" ] || { echo "$f is not a file: remove it" >&2; exit 1; }
[ ! -e "$f" ] || { cat -- "$f"; echo; }
if [ -z "$1" ]; then rm -f -- "$f"; exit; fi
umask 077
mkdir -p -- "$d"
t=$(mktemp "$d/.hold.XXXXXX")
trap 'rm -f -- "$t"' EXIT
printf '%s\n' "$1" >"$t"
sync "$t"
mv -fT -- "$t" "$f"
set +e
"#;

/// What happened to the holds of hosts.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct HoldReport {
    /// The hold that the hosts have now; absent if they were released.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold: Option<HostHold>,
    /// In the order of the inventory.
    pub hosts: Vec<HoldHostResult>,
    /// Hosts that are sandboxes, not machines.
    pub simulated: Vec<HostName>,
    /// Duration of the whole run.
    pub took: Duration,
}

/// What happened to the hold of one host.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct HoldHostResult {
    /// The host.
    pub host: HostName,
    /// `ok`, `failed`, `unreachable` or `cancelled`.
    pub outcome: HostOutcome,
    /// The hold that it had before, also one that was over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub was: Option<HostHold>,
    /// The run that works on the host when the hold is made: it finishes. A lowercase fragment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ongoing: Option<UntrustedText>,
    /// Why nothing changed, if that is so: a lowercase fragment.
    pub reason: UntrustedText,
    /// How to fix it; `None` if nothing failed, or if forge has no advice.
    pub hint: Option<UntrustedText>,
}

impl HoldReport {
    /// Returns the exit code for the hosts' results.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::pick_worst(self.hosts.iter().map(|host| match host.outcome {
            HostOutcome::Ok => ExitCode::Done,
            HostOutcome::Unreachable => ExitCode::Unreachable,
            HostOutcome::Cancelled => ExitCode::Interrupted,
            _ => ExitCode::HostsFailed,
        }))
    }
}

/// When a hold ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldEnd {
    /// After this time.
    After(Duration),
    /// At this time.
    At(Timestamp),
}

impl HoldEnd {
    fn resolve(self, now: Timestamp) -> Result<Timestamp, String> {
        let at = match self {
            Self::After(time) => now.checked_add(time).map_err(|_| "`--until` is too far away")?,
            Self::At(at) => at,
        };
        if at > now { Ok(at) } else { Err(format!("`--until {at}` is in the past")) }
    }
}

/// Returns a hold that begins now.
///
/// # Errors
/// It ends before it begins: a lowercase fragment.
pub fn build_hold(why: &str, until: Option<HoldEnd>, options: &RunOptions) -> Result<HostHold, String> {
    let now = (options.clock)();
    let until = until.map(|until| until.resolve(now)).transpose()?;
    let format = |time: &Timestamp| time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into();
    Ok(HostHold {
        why: why.into(),
        by: format!("{}@{}", options.user, options.controller).into(),
        since: format(&now),
        until: until.as_ref().map(format),
    })
}

/// Puts `hosts` on hold, or releases them without `hold`. Takes no lock: a run that already works on a host finishes.
pub async fn set_hold(
    project: &Project,
    hosts: &[HostName],
    hold: Option<HostHold>,
    options: &RunOptions,
    events: &EventSender,
    cancel: &CancelSignal,
) -> HoldReport {
    let mark = hold.as_ref().map(|hold| serde_json::json!(hold).to_string()).unwrap_or_default();
    let script = format!("{SCRIPT}{WRITER_SNIPPET}exit 0\n");
    let words = ["sh", "-c", &script, HOLD_MARK, &mark].map(str::to_owned);
    let report = exec(project, hosts, &ExecCommand::Words(words.into()), options, events, cancel).await;
    HoldReport {
        hosts: report.hosts.into_iter().map(build_result).collect(),
        hold,
        simulated: report.simulated,
        took: report.took,
    }
}

fn build_result(done: ExecHostResult) -> HoldHostResult {
    let (mark, writer) = split_output(done.stdout.raw());
    let ongoing = writer.and_then(parse_writer).map(|writer| OngoingWork::Run(writer).describe().into());
    let mark = UntrustedText::from(mark);
    let failed = done.outcome == HostOutcome::Failed && !done.stderr.is_empty();
    let said = done.stderr.raw().lines().last().unwrap_or_default();
    HoldHostResult {
        host: done.host,
        outcome: done.outcome,
        was: (!mark.is_empty()).then(|| HostHold::from_mark(&HoldMark { text: mark, now: None })).flatten(),
        ongoing,
        reason: if failed { said.into() } else { done.reason },
        hint: done.hint,
    }
}

/// Splits the output into the former mark, and the run that works on the host.
fn split_output(stdout: &str) -> (&str, Option<&str>) {
    let found = stdout.split_once("writer\0").and_then(|(mark, rest)| Some((mark, rest.strip_suffix('\0')?)));
    found.map_or((stdout, None), |(mark, writer)| (mark, Some(writer)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_in_the_past_is_rejected() {
        let now: Timestamp = "2026-12-01T08:00:00Z".parse().unwrap();
        let later = HoldEnd::After(Duration::from_secs(60)).resolve(now);
        assert_eq!(later.map(|at| at.to_string()), Ok("2026-12-01T08:01:00Z".to_owned()));
        assert_eq!(HoldEnd::At(now).resolve(now), Err("`--until 2026-12-01T08:00:00Z` is in the past".to_owned()));
        assert_eq!(HoldEnd::After(Duration::MAX).resolve(now), Err("`--until` is too far away".to_owned()));
    }
}
