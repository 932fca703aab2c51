//! Helpers for the parsers of facts.

use crate::model::Value;
use crate::probe::{ProbeOutput, UnansweredReason};
use serde_json::json;

/// Prepends the function `guard LIMIT COMMAND ARGUMENTS…` to a snippet. It runs a command that may hang in the kernel,
/// where no signal ends it. The output is a part with the command's name and limit, followed by a part `status`. A
/// command that hangs has no status and is left behind, so that the caller does not wait for it. If an earlier one
/// still hangs (it waits in the kernel now and a second later), the command is not started again.
macro_rules! guarded {
    ($body:literal) => {
        concat!(
            r#"guard() {
l=$1 n=${2##*/}; shift
if ! command -v "$n" >/dev/null 2>&1; then printf '\n\036%s\tmissing\n' "$n"; return; fi
s=$(grep -lsE "^[0-9]+ \($n\) D " /proc/[0-9]*/stat)
[ -z "$s" ] || { sleep 1; s=$(grep -lsE "^[0-9]+ \($n\) D " $s); }
if [ -n "$s" ]; then s=${s#/proc/}; printf '\n\036%s\tstuck\t%s\n' "$n" "${s%%/*}"; return; fi
printf '\n\036%s\trun\t%s\n' "$n" "$l"
( ( LC_ALL=C timeout -k 2 "$l" "$@" 2>&1; printf '\n\036status\t%s\n' "$?" ) </dev/null 3>&- 5>&- & ) | timeout "$((l + 4))" cat
}
"#,
            $body
        )
    };
}
pub(super) use guarded;

/// Returns the output of the snippet if it succeeded.
///
/// # Errors
/// The snippet failed: its status and stderr.
pub(super) fn require_success(output: &ProbeOutput) -> Result<&str, UnansweredReason> {
    match output.status {
        0 => Ok(output.stdout.raw()),
        status => Err(UnansweredReason::new(format!("its snippet failed with status {status}"))
            .with_message(output.stderr.clone())),
    }
}

/// Returns the rest of the first line that starts with `key` and a tab.
pub(super) fn find_field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('\t'))
}

/// Returns text as a value, null if it is empty or missing.
pub(super) fn text_or_null(text: Option<&str>) -> Value {
    match text.map(str::trim) {
        None | Some("") => Value::Null,
        Some(text) => Value::from(text),
    }
}

/// Returns the error for an answer in an unexpected format.
pub(super) fn unparsed_answer(what: &str, output: &ProbeOutput) -> UnansweredReason {
    UnansweredReason::new(format!("{what} is not in the answer"))
        .with_message(output.stdout.raw().chars().take(200).collect::<String>())
}

/// Returns the mark of a part of a fact that could not be read although the rest could.
pub(super) fn unknown_part(why: impl Into<String>) -> Value {
    json!({ "unknown": why.into() })
}

/// Returns a value, or the mark with the reason why it is missing.
pub(super) fn value_or_unknown<T: Into<Value>>(value: Option<T>, why: impl FnOnce() -> String) -> Value {
    value.map_or_else(|| unknown_part(why()), Into::into)
}

/// A section of a snippet's output. It starts with a header line: a record separator, a name and fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OutputSection<'a> {
    head: &'a str,
    pub body: &'a str,
}

impl<'a> OutputSection<'a> {
    pub fn name(&self) -> &'a str {
        self.field_at(0)
    }

    /// Returns a field of the header, empty if it is missing; the name is field 0.
    pub fn field_at(&self, at: usize) -> &'a str {
        self.head.split('\t').nth(at).unwrap_or("")
    }

    /// Returns the first non-empty line of the body.
    pub fn first_line(&self) -> Option<&'a str> {
        self.body.lines().map(str::trim).find(|line| !line.is_empty())
    }
}

/// Splits an output into parts. Text before the first part is skipped.
pub(super) fn split_sections(text: &str) -> Vec<OutputSection<'_>> {
    let part = |text| {
        let (head, body) = str::split_once(text, '\n').unwrap_or((text, ""));
        OutputSection { head, body }
    };
    text.split('\u{1e}').skip(1).map(part).collect()
}

/// Returns the first part with that name.
pub(super) fn find_section<'a>(parts: &[OutputSection<'a>], name: &str) -> Option<OutputSection<'a>> {
    parts.iter().find(|part| part.name() == name).copied()
}

/// The result of a guarded command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GuardedOutput<'a> {
    pub status: i32,
    pub text: &'a str,
}

/// Returns the result of a guarded command; `None` if the snippet did not run it.
///
/// # Errors
/// The command is missing, hangs, or an earlier one still hangs.
pub(super) fn find_guarded_output<'a>(
    parts: &[OutputSection<'a>],
    name: &str,
) -> Result<Option<GuardedOutput<'a>>, UnansweredReason> {
    let Some(at) = parts.iter().position(|part| part.name() == name) else { return Ok(None) };
    let late = || UnansweredReason::new(format!("`{name}` timed out after {} s", parts[at].field_at(2)));
    match parts[at].field_at(1) {
        "missing" => Err(UnansweredReason::missing_tool(name)),
        "stuck" => Err(UnansweredReason::new(format!(
            "an earlier `{name}` (pid {}) hangs in the kernel, so it was not started again",
            parts[at].field_at(2)
        ))),
        _ => match parts.get(at + 1).filter(|part| part.name() == "status").map(|part| part.field_at(1).parse()) {
            Some(Ok(124 | 137)) | None => Err(late()),
            Some(Ok(status)) => Ok(Some(GuardedOutput { status, text: parts[at].body })),
            Some(Err(_)) => Err(UnansweredReason::new(format!("`{name}` reported no exit status"))),
        },
    }
}

/// Returns the error of a failed command, with its output.
pub(super) fn command_failure(name: &str, ran: &GuardedOutput<'_>) -> UnansweredReason {
    let said: String = ran.text.trim().chars().take(200).collect();
    UnansweredReason::new(format!("`{name}` failed with status {}", ran.status)).with_message(said)
}

#[cfg(test)]
pub(super) mod testing;

#[cfg(test)]
mod tests {
    use super::testing::expand_separators;
    use super::*;

    #[test]
    fn guarded_command_returns_its_status_or_times_out() {
        let of = |text: &str| {
            let text = expand_separators(text);
            find_guarded_output(&split_sections(&text), "tool")
                .map(|ran| ran.map(|ran| (ran.status, ran.text.to_owned())))
                .map_err(|u| u.why)
        };
        assert_eq!(of("@@tool\trun\t30\nout\n@@status\t3\n"), Ok(Some((3, "out\n".into()))));
        assert_eq!(of("@@tool\trun\t30\nout\n@@status\t124\n"), Err("`tool` timed out after 30 s".into()));
        assert_eq!(of("@@tool\trun\t30\nout\n"), Err("`tool` timed out after 30 s".into()));
        assert_eq!(of("@@tool\tmissing\n"), Err("`tool` is missing".into()));
        assert_eq!(
            of("@@tool\tstuck\t77\n"),
            Err("an earlier `tool` (pid 77) hangs in the kernel, so it was not started again".into())
        );
        assert_eq!(of("@@other\n"), Ok(None));
    }

    #[test]
    fn unkillable_command_does_not_block_the_snippet() {
        // A child that ignores TERM and left its process group simulates one that hangs in the kernel.
        const SNIPPET: &str = guarded!("sleepy() { :; }\nguard 1 setsid -w sh -c 'trap \"\" TERM; exec sleep 30'");
        let began = std::time::Instant::now();
        let output = std::process::Command::new("dash").arg("-c").arg(SNIPPET).output().expect("dash starts");
        let text = String::from_utf8(output.stdout).expect("is text");
        assert_eq!(
            find_guarded_output(&split_sections(&text), "setsid").map_err(|u| u.why),
            Err("`setsid` timed out after 1 s".into())
        );
        assert!(began.elapsed().as_secs() < 10, "the caller does not wait for it");
    }
}
