//! Traces: a file per step that is touched before the step is applied. The effects of commands and removed files have
//! no path whose ctime shows the change; a process that depends on such a step is restarted because of its trace.
//!
//! Traces are stored below `/run`, because no process survives a reboot.

use crate::model::StepId;
use crate::script::ShellFragment;

const FOLDER: &str = "/run/forge-applied";

/// Returns the trace of a step if its own paths (`inputs`) may not show that it was applied.
pub fn trace_path(step: &StepId, kind: &str, inputs: &[String], removes: bool) -> Option<String> {
    let untold = removes || crate::resource::kind_traits(kind).only_removes || inputs.is_empty();
    untold.then(|| format!("{FOLDER}/{}", step.file_name()))
}

/// Returns commands that touch the trace `path` and then run `action`. Traces are readable by every user, because a
/// plan does not need root.
pub fn leave_trace(path: &str, action: ShellFragment) -> ShellFragment {
    ShellFragment::new()
        .code("(umask 022; mkdir -p ")
        .word(FOLDER)
        .code(" && : > ")
        .word(path)
        .code(") || exit 1\n")
        .append_fragment(action)
}
