//! Identifies the forge process that holds a lock, and checks whether it has ended: only the machine that it ran on can
//! tell.

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use std::fmt;

/// A process, distinguished from every other one on its machine since the boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessMark {
    /// The machine's name: a copy of a running machine shares everything else.
    machine: String,
    /// The kernel's boot ID.
    boot: String,
    /// The PID namespace: containers of one machine share the boot ID.
    namespace: String,
    pid: u32,
    /// Start time of the process in clock ticks since the boot: PIDs are reused.
    started: String,
}

impl ProcessMark {
    /// Returns the mark of this process; `None` if the system does not provide enough data, so that no run assumes it
    /// has ended.
    pub fn current_process() -> Option<Self> {
        let pid = std::process::id();
        let machine = rustix::system::uname().nodename().to_string_lossy().replace(char::is_whitespace, "-");
        Some(Self {
            machine,
            boot: read_boot_id()?,
            namespace: read_pid_namespace()?,
            pid,
            started: read_start_time(pid)?,
        })
    }

    /// Parses the output of [`Display`](fmt::Display).
    pub fn parse(text: &str) -> Option<Self> {
        let [machine, boot, namespace, pid, started] = text.split(' ').collect::<Vec<_>>()[..] else { return None };
        let [machine, boot, namespace, started] = [machine, boot, namespace, started].map(str::to_owned);
        Some(Self { machine, boot, namespace, pid: pid.parse().ok()?, started })
    }

    /// Reports whether the process ran on this machine, in a PID namespace that this process sees, and has ended.
    /// Undecidable cases count as running: `/proc` may hide a process of another user, but a signal still finds it.
    pub fn has_ended(&self) -> bool {
        let Some(own) = Self::current_process() else { return false };
        if (&self.machine, &self.boot, &self.namespace) != (&own.machine, &own.boot, &own.namespace) {
            return false;
        }
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else { return false };
        match test_kill_process(pid) {
            Err(Errno::SRCH) => true,
            _ => read_start_time(self.pid).is_some_and(|started| started != self.started),
        }
    }
}

impl fmt::Display for ProcessMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} {} {}", self.machine, self.boot, self.namespace, self.pid, self.started)
    }
}

fn read_boot_id() -> Option<String> {
    fs_err::read_to_string("/proc/sys/kernel/random/boot_id").ok().map(|text| text.trim().to_owned())
}

fn read_pid_namespace() -> Option<String> {
    Some(fs_err::read_link("/proc/self/ns/pid").ok()?.to_str()?.to_owned())
}

/// Returns the start time of a process in clock ticks since the boot; `None` if it does not exist or is hidden.
pub(super) fn read_start_time(pid: u32) -> Option<String> {
    let stat = fs_err::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in the second field may contain spaces and parentheses; field 22 is the 20th after it.
    stat.rsplit_once(") ")?.1.split(' ').nth(19).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_local_processes_are_reported_as_ended() {
        let own = ProcessMark::current_process().unwrap();
        assert_eq!(ProcessMark::parse(&own.to_string()), Some(own.clone()));
        assert!(!own.has_ended());
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        let gone = ProcessMark { pid: child.id(), ..own.clone() };
        assert!(gone.has_ended());
        assert!(ProcessMark { started: "1".into(), ..own }.has_ended(), "its PID was reused by another process");
        for elsewhere in [
            ProcessMark { machine: "elsewhere".into(), ..gone.clone() },
            ProcessMark { boot: "another".into(), ..gone.clone() },
            ProcessMark { namespace: "pid:[1]".into(), ..gone.clone() },
            ProcessMark { pid: 0, ..gone.clone() },
        ] {
            assert!(!elsewhere.has_ended(), "{elsewhere}");
        }
        for text in ["", "a b c d e", "a b c 1", "a b c 1 2 3"] {
            assert_eq!(ProcessMark::parse(text), None, "{text}");
        }
    }
}
