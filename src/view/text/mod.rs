//! The text writer: for people, grouped by what is equal, worst first.

mod closing;
mod diff;
mod facts;
mod group;
mod plan;
mod problems;
mod report;
mod rows;
mod sections;
mod step;
#[cfg(test)]
mod tests;
mod validation;

use super::{Validation, Writer};
use crate::engine::Report;
use crate::model::{ExitCode, HostName};
use crate::plan::{HostSeen, Plan};
use std::io::{self, Write};

/// Writes for a terminal. Colours are always written: give it a stream that strips them where none are wanted.
#[derive(Clone, Debug, Default)]
pub struct Text {
    /// From 1 on, steps that are as declared are shown too, with the reason and the place of each.
    pub verbose: u8,
    /// The arguments that a next command repeats (`inventory.yaml --on gpu`), quoted for a shell.
    /// `None` where a next command would only disturb.
    pub target: Option<String>,
}

impl Text {
    fn next(&self, verb: &str, out: &mut dyn Write) -> io::Result<()> {
        match self.target.as_deref() {
            None => Ok(()),
            Some("") => writeln!(out, "next: forge {verb}"),
            Some(target) => writeln!(out, "next: forge {verb} {}", super::escape::line(target)),
        }
    }
}

impl Writer for Text {
    fn plan(&self, plan: &Plan, _: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        plan::write(self, plan, out)
    }

    fn report(&self, report: &Report, exit: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        report::write(self, report, exit, out)
    }

    fn facts(&self, seen: &[HostSeen], _: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        facts::write(self, seen, out)
    }

    fn validation(&self, validation: &Validation, _: ExitCode, out: &mut dyn Write) -> io::Result<()> {
        validation::write(validation, out)
    }
}

/// Returns `on node-01`, or `= same on 9 hosts: gpu[02:10]`.
fn on_hosts(hosts: &[&HostName]) -> String {
    let folded = super::fold::fold(hosts.iter().map(|host| host.as_str()));
    let folded = super::escape::line(&folded);
    match hosts {
        [_] => format!("on {folded}"),
        _ => format!("= same on {}: {folded}", super::count(hosts.len(), "host")),
    }
}
