//! The mark of an open window on a host.

use crate::model::{UntrustedText, Value};
use crate::plan::ObservedHost;
use std::fmt;

/// The file in which a host records that its window is open.
pub const WINDOW_MARK: &str = "/var/lib/forge/window.json";

/// An open window of another inventory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherWindow {
    run: String,
    cluster: String,
}

impl fmt::Display for OtherWindow {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { run, cluster } = self;
        write!(out, "run {run} of cluster `{cluster}` opened a window that is still open")
    }
}

/// Returns the run that left a window of `cluster` open on a host, or that drained its node before it opened one. An
/// unreadable mark counts too, and one without a cluster.
pub fn left_open_by(seen: &ObservedHost, cluster: &str) -> Option<UntrustedText> {
    let Some(mark) = &seen.window else { return seen.drained_by().cloned() };
    if find_other_window(seen, cluster).is_some() {
        return None;
    }
    let run = read_field(mark, "run");
    Some(run.unwrap_or_else(|| UNKNOWN_RUN.to_owned()).into())
}

/// Returns the window of another inventory that is open on a host. Only that inventory knows what must match before the
/// host is back in service.
pub fn find_other_window(seen: &ObservedHost, cluster: &str) -> Option<OtherWindow> {
    let mark = seen.window.as_ref()?;
    let other = read_field(mark, "cluster").filter(|other| other != cluster)?;
    Some(OtherWindow { run: read_field(mark, "run").unwrap_or_else(|| UNKNOWN_RUN.to_owned()), cluster: other })
}

const UNKNOWN_RUN: &str = "that is not known";

fn read_field(mark: &UntrustedText, field: &str) -> Option<String> {
    let mark = serde_json::from_str::<Value>(mark.raw()).ok()?;
    Some(mark.get(field)?.as_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::HostName;
    use crate::plan::UnreachableReason;

    #[test]
    fn window_of_another_inventory_is_not_closed() {
        let seen = |mark: &str| {
            let why = UnreachableReason::new("no answer", None);
            ObservedHost { window: Some(mark.into()), ..ObservedHost::from_unreachable(&HostName::new("a"), why) }
        };
        let left = |mark: &str| left_open_by(&seen(mark), "gpu").map(|run| run.raw().to_owned());
        let other = |mark: &str| find_other_window(&seen(mark), "gpu").map(|other| other.to_string());
        let own = r#"{"run":"r1","cluster":"gpu"}"#;
        assert_eq!((left(own).as_deref(), other(own)), (Some("r1"), None));
        let theirs = r#"{"run":"r1","cluster":"base"}"#;
        let why = "run r1 of cluster `base` opened a window that is still open";
        assert_eq!((left(theirs), other(theirs).as_deref()), (None, Some(why)));
        // An earlier version did not write the cluster.
        assert_eq!((left(r#"{"run":"r1"}"#).as_deref(), other(r#"{"run":"r1"}"#)), (Some("r1"), None));
        assert_eq!((left("garbage").as_deref(), other("garbage")), (Some("that is not known"), None));
    }
}
