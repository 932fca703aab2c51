//! Results of `exec`: equal outputs once with their hosts, worst first.

use super::group;
use crate::engine::{ExecHostResult, ExecReport};
use crate::model::{HostName, HostOutcome, UntrustedText};
use crate::view::style::{BAD, DIM, GOOD, HEAD, paint};
use crate::view::{escape, fold, format_count, format_duration, formatting};
use std::io::{self, Write};

/// Writes each output, then the number of hosts per outcome.
pub fn write_exec_report(report: &ExecReport, out: &mut dyn Write) -> io::Result<()> {
    super::shared_lines::write_simulated(&report.simulated, out)?;
    let all = report.hosts.iter().map(|host| (&host.host, host));
    let mut groups: Vec<_> = group::group_equal(all, shown_fields).into_values().collect();
    groups.sort_by_key(|(host, _)| outcome_rank(host.outcome));
    groups.iter().try_for_each(|(host, hosts)| write_host_output(host, hosts, out))?;
    write_closing(report, out)
}

/// Returns the displayed fields of a host. Durations are excluded, or no two hosts would be equal.
fn shown_fields(host: &ExecHostResult) -> impl std::hash::Hash + Eq + use<'_> {
    (host.outcome.name(), host.status, &host.stdout, &host.stderr, host.left_out, (&host.reason, &host.hint))
}

fn outcome_rank(outcome: HostOutcome) -> usize {
    match outcome {
        HostOutcome::Ok => 3,
        HostOutcome::Cancelled => 2,
        HostOutcome::Unreachable => 1,
        _ => 0,
    }
}

/// Writes a one-line output next to the hosts, a longer one below them.
fn write_host_output(host: &ExecHostResult, hosts: &[&HostName], out: &mut dyn Write) -> io::Result<()> {
    let names = fold::fold_names(hosts.iter().map(|host| host.as_str()));
    let head = paint(HEAD, format!("{}:", escape::escape_line(&names)));
    if let (HostOutcome::Ok, Some(line)) = (host.outcome, single_output_line(host)) {
        return writeln!(out, "{head} {line}");
    }
    match (host.outcome, host.stdout.is_empty() && host.stderr.is_empty()) {
        (HostOutcome::Ok, true) => writeln!(out, "{head} {}", paint(DIM, "no output"))?,
        (HostOutcome::Ok, false) => writeln!(out, "{head}")?,
        _ => writeln!(out, "{head} {}{}", paint(BAD, format_ending(host)), format_reason(host))?,
    }
    if let Some(hint) = &host.hint {
        writeln!(out, "    hint: {}", escape::escape_untrusted(hint))?;
    }
    if host.left_out > 0 {
        writeln!(out, "    {}", paint(DIM, format!("({} omitted before this)", format_byte_count(host.left_out))))?;
    }
    write_output(&host.stdout, "", out)?;
    write_output(&host.stderr, "! ", out)
}

fn format_byte_count(bytes: u64) -> String {
    format_count(usize::try_from(bytes).unwrap_or(usize::MAX), "byte")
}

fn single_output_line(host: &ExecHostResult) -> Option<std::borrow::Cow<'_, str>> {
    let text = host.stdout.raw().strip_suffix('\n').unwrap_or(host.stdout.raw());
    let one = !text.is_empty() && !text.contains('\n') && host.stderr.is_empty() && host.left_out == 0;
    one.then(|| escape::escape_block_line(text))
}

fn format_ending(host: &ExecHostResult) -> String {
    match host.status {
        Some(status) => format!("exit status {status}"),
        None => host.outcome.name().to_owned(),
    }
}

fn format_reason(host: &ExecHostResult) -> String {
    match host.reason.is_empty() {
        true => String::new(),
        false => format!(": {}", escape::escape_untrusted(&host.reason)),
    }
}

/// Writes an output block. Lines of stderr have a mark.
fn write_output(text: &UntrustedText, mark: &str, out: &mut dyn Write) -> io::Result<()> {
    if text.is_empty() {
        return Ok(());
    }
    escape::escape_block(text.raw()).try_for_each(|line| writeln!(out, "    {}{line}", paint(DIM, mark)))
}

fn write_closing(report: &ExecReport, out: &mut dyn Write) -> io::Result<()> {
    let counts: Vec<_> =
        HostOutcome::ALL.iter().map(|outcome| (report.count_hosts(*outcome), outcome.name())).collect();
    let word = match report.count_hosts(HostOutcome::Ok) == report.hosts.len() {
        true => paint(GOOD, "done:"),
        false => paint(BAD, "not all done:"),
    };
    let hosts = format_count(report.hosts.len(), "host");
    writeln!(out, "\n{word} {hosts}: {} ({})", formatting::join_counts(&counts), format_duration(report.took))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::ExecCommand;
    use std::time::Duration;

    fn sample_host(
        name: &str,
        outcome: HostOutcome,
        status: Option<i32>,
        stdout: &str,
        stderr: &str,
    ) -> ExecHostResult {
        ExecHostResult {
            host: HostName::new(name),
            outcome,
            status,
            stdout: stdout.into(),
            stderr: stderr.into(),
            left_out: 0,
            reason: UntrustedText::default(),
            hint: None,
            took: Duration::from_millis(name.len() as u64),
        }
    }

    fn render_report(hosts: Vec<ExecHostResult>) -> String {
        let command = ExecCommand::Shell("x".into());
        let report =
            ExecReport { command, hosts, simulated: Vec::new(), interrupted: false, took: Duration::from_millis(1200) };
        let mut out = Vec::new();
        write_exec_report(&report, &mut out).unwrap();
        anstream::adapter::strip_str(std::str::from_utf8(&out).unwrap()).to_string()
    }

    #[test]
    fn equal_outputs_are_printed_once() {
        let of = |name, text| sample_host(name, HostOutcome::Ok, Some(0), text, "");
        let said =
            render_report(vec![of("gpu01", "up\n"), of("gpu02", "up\n"), of("gpu03", "a\n\n\tb\n"), of("gpu04", "")]);
        assert_eq!(
            said,
            "gpu[01:02]: up\ngpu03:\n    a\n    \n    \tb\ngpu04: no output\n\ndone: 4 hosts: 4 ok (1.2 s)\n"
        );
    }

    #[test]
    fn failed_hosts_come_first_with_a_hint() {
        let away = ExecHostResult {
            reason: "no route to `n3`".into(),
            hint: Some("switch it on".into()),
            ..sample_host("n3", HostOutcome::Unreachable, None, "", "")
        };
        let failed = sample_host("n1", HostOutcome::Failed, Some(2), "part\n", "ls: no\nls: never\n");
        let said =
            render_report(vec![failed.clone(), away, sample_host("n2", HostOutcome::Ok, Some(0), "fine", ""), {
                ExecHostResult { host: HostName::new("n4"), left_out: 5, ..failed }
            }]);
        assert_eq!(
            said,
            "n1: exit status 2\n    part\n    ! ls: no\n    ! ls: never\n\
             n4: exit status 2\n    (5 bytes omitted before this)\n    part\n    ! ls: no\n    ! ls: never\n\
             n3: unreachable: no route to `n3`\n    hint: switch it on\nn2: fine\n\
             \nnot all done: 4 hosts: 1 ok, 2 failed, 1 unreachable (1.2 s)\n"
        );
    }

    #[test]
    fn host_output_is_escaped() {
        let said = render_report(vec![sample_host("n1", HostOutcome::Ok, Some(0), "\u{1b}[2Jgone\n", "\u{202e}x\n")]);
        assert_eq!(said, "n1:\n    \\x1b[2Jgone\n    ! \\u{202e}x\n\ndone: 1 host: 1 ok (1.2 s)\n");
    }
}
