//! Warnings about what the cluster's API did not let forge see, and about pods that will hold up a drain.

use super::{HostWarning, ObservedHost, ObservedNode};
use crate::config::Project;
use crate::object::{DEFAULT_NAMESPACE, ObjectState};
use crate::probe::{Probe, ProbeReading};

/// Maximum number of things that a warning names.
const MAX_NAMED: usize = 3;

/// Returns how an account gets to read the records.
pub(super) fn advise_unread_records(project: &Project) -> String {
    let namespace = project.kubernetes.as_ref().map_or(DEFAULT_NAMESPACE, |access| access.namespace.as_str());
    format!("let this account `get` and `list` ConfigMaps in the namespace `{namespace}`")
}

/// Returns the warning for a cluster whose records could not be read.
pub(super) fn warn_unread_records(seen: &ObservedHost, project: &Project) -> Option<HostWarning> {
    let why = seen.cluster_records_failure()?.why;
    let why = format!(
        "forge's records in the cluster could not be read: {why}. Objects that are not declared any more, and the causes of \
         changes, were not seen"
    );
    Some(HostWarning { why: why.into(), hint: Some(advise_unread_records(project)) })
}

/// Returns the warning for objects that were compared without a dry run.
pub(super) fn warn_computed_objects(seen: &ObservedHost) -> Option<HostWarning> {
    let computed = seen.observation.iter().flat_map(|(probe, answer)| match (probe, answer) {
        (Probe::Object { id, .. }, Ok(ProbeReading::Object(ObjectState::Known(info)))) if info.computed => {
            vec![id.to_string()]
        }
        (Probe::Release(_), Ok(ProbeReading::Release(state))) => state.computed.clone(),
        _ => Vec::new(),
    });
    let names: Vec<String> = computed.collect();
    let named = join_first(&names)?;
    Some(HostWarning {
        why: format!(
            "this account may not `patch` {named}: compared without a dry run. Changes by defaults and webhooks, undeclared \
             fields, and rejections by the API were not seen"
        )
        .into(),
        hint: Some("use an account that may `patch` these objects for a complete comparison".to_owned()),
    })
}

/// Returns the warning for a node whose pods will hold up its drain, if its host has a window.
pub(super) fn warn_drain_obstacles(seen: &ObservedHost) -> Option<HostWarning> {
    let Some(ObservedNode::Node { name, obstacles, .. }) = &seen.node else { return None };
    let texts: Vec<String> = obstacles.iter().map(|text| text.raw().to_owned()).collect();
    let named = join_first(&texts)?;
    Some(HostWarning { why: format!("the drain of node {} is held up: {named}", name.raw()).into(), hint: None })
}

/// Joins the first few texts; `None` if there are none.
fn join_first(texts: &[String]) -> Option<String> {
    let first = texts.iter().take(MAX_NAMED).cloned().collect::<Vec<_>>().join(", ");
    match texts.len() {
        0 => None,
        count if count > MAX_NAMED => Some(format!("{first} and {} more", count - MAX_NAMED)),
        _ => Some(first),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_name_the_first_three() {
        let texts = |count: usize| (0..count).map(|at| format!("t{at}")).collect::<Vec<_>>();
        assert_eq!(join_first(&texts(0)), None);
        assert_eq!(join_first(&texts(3)).unwrap(), "t0, t1, t2");
        assert_eq!(join_first(&texts(5)).unwrap(), "t0, t1, t2 and 2 more");
    }
}
