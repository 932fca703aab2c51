//! Result of `doctor`: findings about this machine, the cluster and hosts; equal ones once, worst first, with hints.

use super::shared_lines::format_hosts;
use super::{TextWriter, group};
use crate::engine::{DoctorFinding, DoctorReport, DoctorSeverity};
use crate::model::{ExitCode, HostName, UntrustedText};
use crate::plan::HostReachability;
use crate::view::style::{BAD, CHANGE, DIM, GOOD, HEAD, UNKNOWN, paint};
use crate::view::{escape, fold, format_duration, formatting};
use std::io::{self, Write};

/// Writes the findings, then the hosts that are ready.
pub fn write_checkup(text: &TextWriter, checkup: &DoctorReport, exit: ExitCode, out: &mut dyn Write) -> io::Result<()> {
    super::shared_lines::write_simulated(&checkup.simulated, out)?;
    let least = if text.verbose > 0 { DoctorSeverity::Ok } else { DoctorSeverity::Note };
    write_section("this machine", &checkup.here, least, out)?;
    write_section("cluster", &checkup.cluster, least, out)?;
    write_hosts(checkup, least, out)?;
    write_closing(checkup, out)?;
    if exit == ExitCode::Done { text.write_next_command("plan", out) } else { Ok(()) }
}

/// Writes findings that are not about a host.
fn write_section(head: &str, findings: &[DoctorFinding], least: DoctorSeverity, out: &mut dyn Write) -> io::Result<()> {
    let shown = sort_findings(findings.iter().filter(|finding| finding.weight <= least));
    if shown.is_empty() {
        return Ok(());
    }
    writeln!(out, "{}", paint(HEAD, head))?;
    shown.iter().try_for_each(|finding| write_finding(finding, None, out))?;
    writeln!(out)
}

fn sort_findings<'f>(findings: impl Iterator<Item = &'f DoctorFinding>) -> Vec<&'f DoctorFinding> {
    let mut findings: Vec<_> = findings.collect();
    findings.sort_by_key(|finding| finding.weight);
    findings
}

fn write_hosts(checkup: &DoctorReport, least: DoctorSeverity, out: &mut dyn Write) -> io::Result<()> {
    let away = checkup.hosts.iter().filter_map(|host| match &host.reach {
        HostReachability::Observed => None,
        HostReachability::Unreachable(why) => Some((&host.host, why)),
    });
    let away = group::group_unreachable(away);
    let all = checkup.hosts.iter().flat_map(|host| host.findings.iter().map(move |finding| (&host.host, finding)));
    let shown = all.filter(|(_, finding)| finding.weight <= least);
    let mut groups: Vec<_> =
        group::group_equal(shown, |finding| (finding.check, finding.weight, &finding.what, &finding.hint))
            .into_values()
            .collect();
    groups.sort_by_key(|(finding, _)| finding.weight);
    if away.is_empty() && groups.is_empty() {
        return Ok(());
    }
    writeln!(out, "{}", paint(HEAD, "hosts"))?;
    for (why, hosts) in &away {
        write_check_line(paint(BAD, "x"), "unreachable", &why.why, why.hint.as_ref(), out)?;
        writeln!(out, "      {}", paint(DIM, format_hosts(hosts)))?;
    }
    groups.iter().try_for_each(|(finding, hosts)| write_finding(finding, Some(hosts), out))?;
    writeln!(out)
}

fn write_finding(finding: &DoctorFinding, hosts: Option<&[&HostName]>, out: &mut dyn Write) -> io::Result<()> {
    let symbol = match finding.weight {
        DoctorSeverity::Problem => paint(BAD, "x"),
        DoctorSeverity::Unknown => paint(UNKNOWN, "?"),
        DoctorSeverity::Note => paint(CHANGE, "!"),
        DoctorSeverity::Ok => paint(GOOD, "="),
    };
    write_check_line(symbol, finding.check, &finding.what, finding.hint.as_ref(), out)?;
    match hosts {
        Some(hosts) => writeln!(out, "      {}", paint(DIM, format_hosts(hosts))),
        None => Ok(()),
    }
}

fn write_check_line(
    symbol: impl std::fmt::Display,
    check: &str,
    what: &UntrustedText,
    hint: Option<&UntrustedText>,
    out: &mut dyn Write,
) -> io::Result<()> {
    const CHARS: usize = 300;
    writeln!(out, "  {symbol} {check}: {}", escape::escape_truncated(what.raw(), CHARS))?;
    match hint.filter(|hint| !hint.is_empty()) {
        Some(hint) => writeln!(out, "      hint: {}", escape::escape_untrusted(hint)),
        None => Ok(()),
    }
}

fn write_closing(checkup: &DoctorReport, out: &mut dyn Write) -> io::Result<()> {
    let ready: Vec<&str> = checkup.hosts.iter().filter(|host| host.is_ready()).map(|host| host.host.as_str()).collect();
    let away = checkup.hosts.iter().filter(|host| host.reach != HostReachability::Observed).count();
    if !ready.is_empty() {
        writeln!(out, "{} {}", paint(GOOD, "ready:"), escape::escape_line(&fold::fold_names(ready.iter().copied())))?;
    }
    let not = checkup.hosts.len() - ready.len() - away;
    let counts = formatting::join_counts(&[(ready.len(), "ready"), (not, "not ready"), (away, "unreachable")]);
    writeln!(
        out,
        "doctor: {}: {counts} ({})",
        formatting::summarize_hosts(checkup.hosts.iter().map(|host| &host.host)),
        format_duration(checkup.took)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::HostHealth;
    use crate::plan::UnreachableReason;
    use std::time::Duration;

    fn new_finding(weight: DoctorSeverity, check: &'static str, what: &str, hint: Option<&str>) -> DoctorFinding {
        DoctorFinding { check, weight, what: what.into(), hint: hint.map(UntrustedText::from) }
    }

    fn sample_checkup() -> DoctorReport {
        let room = || {
            new_finding(DoctorSeverity::Problem, "room", "no space left in `/var`: 0 MiB free", Some("free some space"))
        };
        let tools = || new_finding(DoctorSeverity::Ok, "tools", "all there", None);
        let host = |name: &str, findings| HostHealth {
            host: HostName::new(name),
            reach: HostReachability::Observed,
            findings,
        };
        let clock = new_finding(DoctorSeverity::Note, "clock", "not\u{1b}[2J synchronized", Some("run chrony"));
        let why = UnreachableReason::new("no route to `n4`", Some("switch it on".into()));
        let hosts = vec![
            host("n1", vec![tools(), room()]),
            host("n2", vec![room(), tools()]),
            host("n3", vec![tools(), clock]),
            HostHealth { reach: HostReachability::Unreachable(why), ..host("n4", vec![]) },
        ];
        let here = vec![
            new_finding(DoctorSeverity::Ok, "ssh", "OpenSSH_9.2p1", None),
            new_finding(DoctorSeverity::Note, "terminal", "not interactive", Some("use `--yes`")),
        ];
        DoctorReport { here, cluster: Vec::new(), hosts, simulated: Vec::new(), took: Duration::from_millis(400) }
    }

    fn render_checkup(text: &TextWriter, checkup: &DoctorReport) -> String {
        let mut out = Vec::new();
        write_checkup(text, checkup, checkup.exit_code(), &mut out).unwrap();
        anstream::adapter::strip_str(std::str::from_utf8(&out).unwrap()).to_string()
    }

    #[test]
    fn doctor_findings_are_folded_worst_first() {
        insta::assert_snapshot!(render_checkup(&TextWriter::default(), &sample_checkup()));
    }

    #[test]
    fn passed_checks_are_shown_with_verbose() {
        let text = TextWriter { verbose: 1, ..TextWriter::default() };
        let fine = DoctorReport { hosts: sample_checkup().hosts.drain(2..3).collect(), ..sample_checkup() };
        insta::assert_snapshot!(render_checkup(&text, &fine));
    }

    #[test]
    fn ready_hosts_get_a_next_command() {
        let findings = vec![new_finding(DoctorSeverity::Ok, "tools", "all there", None)];
        let hosts = vec![HostHealth { host: HostName::new("n1"), reach: HostReachability::Observed, findings }];
        let fine = DoctorReport {
            here: Vec::new(),
            cluster: Vec::new(),
            hosts,
            simulated: vec![HostName::new("n1")],
            took: Duration::ZERO,
        };
        let text = TextWriter { target: Some("c.yaml".into()), ..TextWriter::default() };
        assert_eq!(
            render_checkup(&text, &fine),
            "simulated, no real hardware: n1\n\nready: n1\ndoctor: 1 host: 1 ready (0.0 s)\nnext: forge plan c.yaml\n"
        );
    }
}
