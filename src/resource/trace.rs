//! Traces: a file per step that is touched before the step is applied. What a command did, and what is removed, has no
//! path whose ctime tells of it; a process that depends on such a step is renewed for its trace.
//!
//! They lie below `/run`: no process outlives a boot.

use crate::model::StepId;
use crate::script::Fragment;

const FOLDER: &str = "/run/forge-applied";

/// Returns the trace of a step, where its own paths (`inputs`) may not tell that it was applied.
pub fn trace_path(step: &StepId, kind: &str, inputs: &[String], removes: bool) -> Option<String> {
    let untold = removes || kind == super::absent::KIND.name || inputs.is_empty();
    untold.then(|| format!("{FOLDER}/{}", step.file_name()))
}

/// Returns commands that touch the trace `path` and then go on with `action`. Everybody may look at traces: a plan
/// needs no root.
pub fn leave_trace(path: &str, action: Fragment) -> Fragment {
    Fragment::new()
        .code("(umask 022; mkdir -p ")
        .word(FOLDER)
        .code(" && : > ")
        .word(path)
        .code(") || exit 1\n")
        .then(action)
}
