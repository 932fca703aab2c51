//! A forge that runs while a test looks at its hosts.

use crate::support::Output;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use std::process::{Child, Command, ExitStatus, Stdio};

/// A running forge that a test interrupts, kills or waits for. Ends with its test: the forge of a failed test would
/// change the hosts of the next one.
pub struct RunningForge(Option<Child>);

impl RunningForge {
    /// Starts forge, with its output as `command` says.
    pub fn start(command: &mut Command) -> RunningForge {
        RunningForge(Some(command.stdin(Stdio::null()).spawn().expect("forge starts")))
    }

    /// Starts forge for [`RunningForge::finish`].
    pub fn start_heard(command: &mut Command) -> RunningForge {
        RunningForge::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()))
    }

    pub fn id(&self) -> u32 {
        self.0.as_ref().expect("not finished").id()
    }

    pub fn has_ended(&mut self) -> bool {
        self.child().try_wait().expect("the child is ours").is_some()
    }

    /// Sends Ctrl-C.
    pub fn interrupt(&self) {
        let pid = Pid::from_child(self.0.as_ref().expect("not finished"));
        let sent = kill_process(pid, Signal::INT);
        assert!(matches!(sent, Ok(()) | Err(Errno::SRCH)), "forge is signalled, or has ended: {sent:?}");
    }

    /// Kills forge if it still runs, and waits until it is gone.
    pub fn kill(&mut self) {
        self.child().kill().expect("forge is killed");
        self.wait();
    }

    /// Waits until forge ends by itself.
    pub fn wait(&mut self) -> ExitStatus {
        self.child().wait().expect("the child is ours")
    }

    /// Waits until forge ends by itself, and returns its output.
    pub fn finish(mut self) -> Output {
        Output::from(self.0.take().expect("not finished").wait_with_output().expect("the child is ours"))
    }

    fn child(&mut self) -> &mut Child {
        self.0.as_mut().expect("not finished")
    }
}

impl Drop for RunningForge {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
