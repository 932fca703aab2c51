//! The mark of an open window on a host.

use crate::model::{UntrustedText, Value};
use crate::plan::ObservedHost;

/// The file in which a host records that its window is open.
pub const WINDOW_MARK: &str = "/var/lib/forge/window.json";

/// Returns the run that left a window open on a host, or that drained its node before it opened one. An unreadable mark
/// counts too.
pub fn left_open_by(seen: &ObservedHost) -> Option<UntrustedText> {
    let Some(mark) = &seen.window else { return seen.drained_by().cloned() };
    let mark = serde_json::from_str::<Value>(mark.raw()).ok();
    let run = mark.and_then(|mark| Some(mark.get("run")?.as_str()?.to_owned()));
    Some(run.unwrap_or_else(|| "that is not known".to_owned()).into())
}
