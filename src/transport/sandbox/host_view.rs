//! The view of a host for a rehearsal: the scripts that start it and report what changed in it, and how to enter it.

use super::{BUILD_SCRIPT, DROPPED_CAPABILITIES, PATH, sandbox_files};
use crate::script::ShellFragment;
use crate::transport::lease::LEASE_S;

const VIEW_START: &str = include_str!("view_start.sh");
const VIEW_REPORT: &str = include_str!("view_report.sh");

/// Checks the id of the view, its first argument, and then runs the command that follows. Outside the view, the command
/// would change the host. One line without characters that a login shell interprets in a quoted word.
const VIEW_GUARD: &str = concat!(
    "id=; read -r id 2>/dev/null </usr/local/lib/forge-sandbox/id; ",
    r#"[ -n "$id" ] && [ "$id" = "$1" ] || { echo "the view has ended" >&2; exit 1; }; shift; exec "$@""#
);

/// Message of a command that found another machine than its view.
pub const VIEW_GUARD_MESSAGE: &str = "the view has ended";

/// A view that is up on a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostView {
    /// PID of its process 1, as seen from the host.
    pid: String,
    /// Identifies the view; a file in it has the same id.
    id: String,
    /// The size of its memory in KiB: what it may write.
    pub size_kib: u64,
    /// Whether systemd runs on the host.
    pub host_runs_systemd: bool,
}

impl HostView {
    /// Parses `ready PID ID KIB SYSTEMD`.
    pub(in crate::transport) fn parse(said: &str) -> Option<Self> {
        let words: Vec<&str> = said.split_whitespace().collect();
        match words[..] {
            ["ready", pid, id, size, systemd @ ("yes" | "no")] if pid.bytes().all(|b| b.is_ascii_digit()) => {
                Some(Self {
                    pid: pid.to_owned(),
                    id: id.to_owned(),
                    size_kib: size.parse().ok()?,
                    host_runs_systemd: systemd == "yes",
                })
            }
            _ => None,
        }
    }

    /// Appends the start of a command of the host's root that runs the words after it in the view, or fails.
    pub(in crate::transport) fn append_entry(&self, start: ShellFragment) -> ShellFragment {
        let enter = start.code(" nsenter --target").word(&self.pid);
        let enter = enter.code(" --mount --pid --net --uts --ipc --root --wd -- setpriv --bounding-set");
        let enter = enter.word(DROPPED_CAPABILITIES).code(" -- env -i").word(PATH);
        enter.code(" HOME=/root USER=root LOGNAME=root sh -c").word(VIEW_GUARD).code(" sh").word(&self.id)
    }
}

/// Returns the script that starts a view on a host as root. It prints [`HostView::parse`]'s line, and the view ends when
/// its stdin ends.
pub(in crate::transport) fn render_view_start() -> ShellFragment {
    let start = ShellFragment::new().code("forge_main() {\n").code(VIEW_START).code("}\nforge_main");
    let start = start.word(BUILD_SCRIPT).word(sandbox_files::render_view_script());
    start.word(DROPPED_CAPABILITIES).number(LEASE_S).code("\n")
}

/// Returns the script that prints what differs between a view and its host. It runs on the host as root.
pub fn build_view_report(view: &HostView) -> ShellFragment {
    let report = ShellFragment::new().code("forge_report() {\n").code(VIEW_REPORT).code("}\nforge_report");
    report.word(&view.pid).word(&view.id).code("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incomplete_reply_of_a_view_is_rejected() {
        let view =
            |systemd| Some(HostView { pid: "41".into(), id: "5f".into(), size_kib: 9, host_runs_systemd: systemd });
        assert_eq!(HostView::parse("ready 41 5f 9 yes\n"), view(true));
        assert_eq!(HostView::parse("ready 41 5f 9 no\n"), view(false));
        for text in ["", "ready 41", "ready 41 5f 9", "ready -1 5f 9 no", "ready 41 5f x no", "noise ready 41 5f 9 no"]
        {
            assert_eq!(HostView::parse(text), None, "{text}");
        }
    }

    /// A command does not run if the view was not entered.
    #[test]
    fn command_does_not_run_outside_the_view() {
        let folder = tempfile::tempdir().unwrap();
        for id in ["", "5f"] {
            #[expect(clippy::disallowed_methods, reason = "a test may start programs")]
            let mut start = std::process::Command::new("sh");
            start.args(["-c", VIEW_GUARD, "sh", id, "touch"]).arg(folder.path().join("witness"));
            let output = start.output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!((output.status.code(), said.trim_end()), (Some(1), VIEW_GUARD_MESSAGE));
            assert!(!folder.path().join("witness").exists());
        }
    }
}
