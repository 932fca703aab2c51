//! Checks this machine's prerequisites: for reaching hosts and for keeping history.

use super::super::run::Options;
use super::{Finding, Weight};
use crate::config::{Project, TransportKind};
use crate::model::HostName;
use crate::transport;
use camino::Utf8Path;
use rustix::fs::Access;

/// Returns the findings, in the order in which the checks build on each other.
pub async fn findings(
    project: &Project,
    hosts: &[HostName],
    options: &Options,
    state: &Utf8Path,
    can_ask: bool,
) -> Vec<Finding> {
    let mut found = Vec::new();
    let by_ssh =
        |host: &&HostName| project.hosts.get(*host).is_some_and(|h| matches!(h.connect.transport, TransportKind::Ssh));
    if hosts.iter().any(|host| by_ssh(&host)) {
        found.push(ssh().await);
        found.push(sockets(options));
    }
    found.push(history(state));
    found.push(terminal(can_ask));
    found
}

async fn ssh() -> Finding {
    match transport::ssh_version().await {
        Ok(version) => Finding::new(Weight::Ok, "ssh", version),
        Err(error) => Finding::new(Weight::Problem, "ssh", error.message.clone()).hint(error.hint.unwrap_or_default()),
    }
}

fn sockets(options: &Options) -> Finding {
    match transport::check_control_dir(&options.control_dir) {
        Ok(()) => Finding::new(Weight::Ok, "sockets", format!("`{}` is private", options.control_dir)),
        Err(error) => {
            Finding::new(Weight::Problem, "sockets", error.message.clone()).hint(error.hint.unwrap_or_default())
        }
    }
}

/// Runs continue without a history, so a folder that is not writable is only a note.
pub(super) fn history(state: &Utf8Path) -> Finding {
    let there = state.ancestors().find(|path| path.exists() || path.as_str().is_empty()).unwrap_or(Utf8Path::new("."));
    let there = if there.as_str().is_empty() { Utf8Path::new(".") } else { there };
    let writable =
        there.is_dir() && rustix::fs::access(there.as_std_path(), Access::WRITE_OK | Access::EXEC_OK).is_ok();
    match writable {
        true => Finding::new(Weight::Ok, "history", format!("`{state}` is writable")),
        false => Finding::new(Weight::Note, "history", format!("`{state}` is not writable: no history is kept"))
            .hint("set another folder with `--state` or `FORGE_STATE`"),
    }
}

fn terminal(can_ask: bool) -> Finding {
    match can_ask {
        true => Finding::new(Weight::Ok, "terminal", "interactive: confirmation prompts are possible"),
        false => Finding::new(Weight::Note, "terminal", "not interactive: no confirmation prompts")
            .hint("`apply`, and `exec` on more than one host, need `--yes` here"),
    }
}
