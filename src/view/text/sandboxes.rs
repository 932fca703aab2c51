//! Sandboxes of a cluster: one line each.

use crate::transport::Sandbox;
use crate::view::style::{DIM, paint};
use crate::view::{SandboxList, escape, format_count};
use std::io::{self, Write};

/// Lists the sandboxes, or the ended ones.
pub fn write_sandboxes(sandboxes: &SandboxList, out: &mut dyn Write) -> io::Result<()> {
    let width = sandboxes.list.iter().map(|sandbox| sandbox.host.chars().count()).max().unwrap_or(0);
    for sandbox in &sandboxes.list {
        let host = escape::escape_line(&sandbox.host);
        writeln!(out, "{host:<width$}  {}", paint(DIM, format_state(sandbox, sandboxes.ended)))?;
    }
    let count = format_count(sandboxes.list.len(), "sandbox");
    writeln!(out, "{count}{}", if sandboxes.ended { " ended" } else { "" })
}

fn format_state(sandbox: &Sandbox, ended: bool) -> String {
    match (ended, sandbox.pid) {
        (true, Some(_)) => "ended".to_owned(),
        (true, None) => "was not running".to_owned(),
        (false, Some(pid)) => format!("running, process {pid}"),
        (false, None) => "not running; the next command recreates it".to_owned(),
    }
}
