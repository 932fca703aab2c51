//! Runs forge's own short scripts during a window.

use super::window_refusal::WindowRefusal;
use crate::engine::host_session::{SHORT_SCRIPT_LIMIT, summarize_stderr};
use crate::engine::host_work::HostWork;
use crate::script::ShellFragment;
use std::time::Duration;

/// Timeout of a script that stops units: as long as systemd waits for the slowest of several.
pub(super) const STOP_UNITS_LIMIT: Duration = Duration::from_secs(SHORT_SCRIPT_LIMIT.as_secs() * 10);

/// Runs one of forge's own short scripts under the lock. Returns its stdout.
pub(super) async fn run_own_script(
    work: &mut HostWork<'_>,
    body: ShellFragment,
    limit: Duration,
) -> Result<String, WindowRefusal> {
    let shared = work.run.board.shared_values();
    let done = work.link.run_acting_script(body, limit, &shared.secrets).await?;
    match done.finished {
        finished if finished.status == 0 => Ok(String::from_utf8_lossy(&finished.stdout).into_owned()),
        finished => Err(WindowRefusal::Failed(summarize_stderr(&finished.stderr))),
    }
}
