//! Lines and phrases that several texts share.

use crate::model::HostName;
use crate::view::{escape, fold, formatting};
use std::io::{self, Write};

/// Lists simulated hosts first, before any result about them.
pub(super) fn write_simulated<'a>(
    hosts: impl IntoIterator<Item = &'a HostName>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let folded = fold::fold_names(hosts.into_iter().map(HostName::as_str));
    match folded.as_str() {
        "" => Ok(()),
        hosts => writeln!(out, "simulated, no real hardware: {}\n", escape::escape_line(hosts)),
    }
}

/// Returns `on node-01`, or `= same on 9 hosts: gpu[02:10]`.
pub(super) fn format_hosts(hosts: &[&HostName]) -> String {
    let folded = fold::fold_names(hosts.iter().map(|host| host.as_str()));
    let folded = escape::escape_line(&folded);
    match hosts {
        [_] => format!("on {folded}"),
        _ => format!("= same on {}: {folded}", formatting::summarize_hosts(hosts.iter().copied())),
    }
}
