//! Results of `hold` and `release`: hosts with the same result once.

use super::group;
use crate::engine::{HoldHostResult, HoldReport};
use crate::model::{HostName, HostOutcome};
use crate::view::style::{BAD, DIM, HEAD, UNKNOWN, paint};
use crate::view::{escape, fold};
use std::io::{self, Write};

/// Writes what happened on each host.
pub fn write_holds(report: &HoldReport, out: &mut dyn Write) -> io::Result<()> {
    super::shared_lines::write_simulated(&report.simulated, out)?;
    let all = report.hosts.iter().map(|host| (&host.host, host));
    let groups =
        group::group_equal(all, |host| (host.outcome.name(), &host.was, &host.ongoing, &host.reason, &host.hint));
    groups.values().try_for_each(|(host, hosts)| write_result(report, host, hosts, out))
}

fn write_result(
    report: &HoldReport,
    host: &HoldHostResult,
    hosts: &[&HostName],
    out: &mut dyn Write,
) -> io::Result<()> {
    let names = fold::fold_names(hosts.iter().map(|host| host.as_str()));
    let head = paint(HEAD, format!("{}:", escape::escape_line(&names)));
    if host.outcome != HostOutcome::Ok {
        let reason = escape::escape_untrusted(&host.reason);
        writeln!(out, "{head} {}: {reason}", paint(BAD, host.outcome.name()))?;
        return match &host.hint {
            Some(hint) => writeln!(out, "    hint: {}", escape::escape_untrusted(hint)),
            None => Ok(()),
        };
    }
    match (&report.hold, &host.was) {
        (Some(hold), _) => writeln!(out, "{head} {}", escape::escape_line(&hold.describe()))?,
        (None, Some(_)) => writeln!(out, "{head} released")?,
        (None, None) => writeln!(out, "{head} was not on hold")?,
    }
    if let Some(ongoing) = &host.ongoing {
        let hint = "it finishes: wait for its end before you touch the host";
        writeln!(out, "    {}\n    hint: {hint}", paint(UNKNOWN, escape::escape_untrusted(ongoing)))?;
    }
    match &host.was {
        Some(was) => writeln!(out, "    {}", paint(DIM, escape::escape_line(&format!("was {}", was.describe())))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::HostHold;

    fn hold(why: &str) -> HostHold {
        HostHold { why: why.into(), by: "ann@ops".into(), since: "2026-11-25T12:00:00Z".into(), until: None }
    }

    fn result(host: &str, outcome: HostOutcome, was: Option<HostHold>, reason: &str) -> HoldHostResult {
        HoldHostResult { host: HostName::new(host), outcome, was, ongoing: None, reason: reason.into(), hint: None }
    }

    fn render(report: &HoldReport) -> String {
        let mut out = Vec::new();
        write_holds(report, &mut out).unwrap();
        anstream::adapter::strip_str(std::str::from_utf8(&out).unwrap()).to_string()
    }

    #[test]
    fn hosts_with_the_same_result_are_one_line() {
        let hosts = vec![
            result("a1", HostOutcome::Ok, None, ""),
            result("a2", HostOutcome::Ok, None, ""),
            result("a3", HostOutcome::Ok, Some(hold("before")), ""),
            result("a4", HostOutcome::Unreachable, None, "no route"),
        ];
        let mut report =
            HoldReport { hold: Some(hold("a new rack")), hosts, simulated: Vec::new(), took: Default::default() };
        assert_eq!(
            render(&report),
            "a[1:2]: on hold by ann@ops since 2026-11-25T12:00:00Z: a new rack\n\
             a3: on hold by ann@ops since 2026-11-25T12:00:00Z: a new rack\n    \
             was on hold by ann@ops since 2026-11-25T12:00:00Z: before\n\
             a4: unreachable: no route\n"
        );
        report.hosts[1].ongoing = Some("another run works on this host: X".into());
        assert!(
            render(&report).contains(
                "a2: on hold by ann@ops since 2026-11-25T12:00:00Z: a new rack\n    \
                 another run works on this host: X\n    hint: it finishes: wait for its end before you touch the host\n"
            ),
            "{}",
            render(&report)
        );
        report.hosts[1].ongoing = None;
        report.hold = None;
        assert_eq!(
            render(&report),
            "a[1:2]: was not on hold\n\
             a3: released\n    \
             was on hold by ann@ops since 2026-11-25T12:00:00Z: before\n\
             a4: unreachable: no route\n"
        );
    }
}
