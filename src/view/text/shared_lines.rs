//! Lines and phrases that several texts share.

use crate::model::HostName;
use crate::view::{escape, fold, formatting};
use std::collections::BTreeSet;
use std::io::{self, Write};

/// Lists simulated hosts first, before any result about them.
pub(in crate::view) fn write_simulated<'a>(
    hosts: impl IntoIterator<Item = &'a HostName>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let folded = fold::fold_names(hosts.into_iter().map(HostName::as_str));
    match folded.as_str() {
        "" => Ok(()),
        hosts => writeln!(out, "simulated, no real hardware: {}\n", escape::escape_line(hosts)),
    }
}

/// Returns `on node-01`, or `= same on 9 hosts: gpu[02:10]`. A host with several equal entries counts once.
pub(super) fn format_hosts(hosts: &[&HostName]) -> String {
    let distinct: BTreeSet<&HostName> = hosts.iter().copied().collect();
    let folded = fold::fold_names(hosts.iter().map(|host| host.as_str()));
    let folded = escape::escape_line(&folded);
    match distinct.len() {
        1 => format!("on {folded}"),
        _ => format!("= same on {}: {folded}", formatting::summarize_hosts(distinct.into_iter())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_with_several_entries_counts_once() {
        let (a, b) = (HostName::new("node-01"), HostName::new("node-02"));
        assert_eq!(format_hosts(&[&b, &b]), "on node-02");
        assert_eq!(format_hosts(&[&b, &a, &b]), "= same on 2 hosts: node-[01:02]");
    }
}
