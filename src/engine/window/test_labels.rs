//! Labels of a node that say which acceptance tests its host has passed: kept by every run that may end such a result.

use super::window_node::{NodeDrainRun, PATCH_ATTEMPTS, failed_node, find_window_node};
use super::window_refusal::WindowRefusal;
use crate::config::Project;
use crate::drift::{holds_test_set, list_proof_facts, read_host_proofs};
use crate::engine::cluster_nodes::is_declared_node;
use crate::engine::host_work::HostWork;
use crate::facts::Facts;
use crate::kube::NodePatchOutcome;
use crate::model::{HostName, UntrustedText};
use crate::object::list_label_changes;
use crate::plan::{HostWindow, ObservedNode};
use crate::probe::Probe;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// Returns the sets whose results are labels of the host's node.
pub(in crate::engine) fn list_labeled_sets<'p>(project: &'p Project, host: &HostName) -> impl Iterator<Item = &'p str> {
    let is_node = !host.is_cluster() && is_declared_node(project, host);
    let sets = project.rollout.kubernetes.iter().filter(move |_| is_node).flat_map(|drain| &drain.test_labels);
    sets.map(|(set, _)| set.as_str())
}

/// Reads again what the results of the host rest on, and updates the labels of its node.
///
/// # Errors
/// A label may be wrong: the reason.
pub(in crate::engine) async fn refresh_test_labels(work: &mut HostWork<'_>) -> Result<(), UntrustedText> {
    let (run, host) = (work.run, work.host().clone());
    let sets: Vec<&str> = list_labeled_sets(run.project, &host).collect();
    if sets.is_empty() {
        return Ok(());
    }
    let facts = list_proof_facts(run.project).map(|name| Probe::Fact { name: name.to_owned() });
    let probes: BTreeSet<Probe> = facts.chain([Probe::Records]).collect();
    let observed = work.link.observe(&probes, &run.board.shared_values().secrets).await;
    let observation = observed.map_err(|_| "the connection to the host was lost")?;
    let facts = Facts::from_observation(&observation);
    // What cannot be read proves nothing.
    let proofs = read_host_proofs(run.project, &observation).ok();
    let holds =
        |set: &str| proofs.as_ref().is_some_and(|proofs| holds_test_set(run.project, set, &host, proofs, &facts));
    let results = sets.into_iter().map(|set| (set.to_owned(), holds(set))).collect();
    let node = work.view.seen().node.clone().unwrap_or(ObservedNode::Absent);
    set_test_labels(NodeDrainRun::from_apply(run), &host, node, &results).await
}

/// Sets or removes the labels of a host's node. `node` names its node, if that is known.
///
/// # Errors
/// A label may be wrong: the reason.
pub(in crate::engine) async fn set_test_labels(
    run: NodeDrainRun<'_>,
    host: &HostName,
    node: ObservedNode,
    results: &BTreeMap<String, bool>,
) -> Result<(), UntrustedText> {
    let window = HostWindow { kubernetes: Some(node), ..HostWindow::default() };
    let set = patch_labels(run, host, &window, results).await;
    set.map_err(|refusal| refusal.describe_reason().unwrap_or_else(|| "stopped".into()))
}

async fn patch_labels(
    run: NodeDrainRun<'_>,
    host: &HostName,
    window: &HostWindow,
    results: &BTreeMap<String, bool>,
) -> Result<(), WindowRefusal> {
    let Some(found) = find_window_node(run, host, window).await? else { return Ok(()) };
    for _ in 0..PATCH_ATTEMPTS {
        let Some(node) = found.cluster.find_node(&found.node).await.map_err(failed_node)? else { return Ok(()) };
        let labels = list_label_changes(&node, results);
        if labels.is_empty() {
            return Ok(());
        }
        let patch = json!({ "metadata": { "labels": labels } });
        match found.cluster.patch_node(&node, patch).await.map_err(failed_node)? {
            NodePatchOutcome::Done | NodePatchOutcome::Gone => return Ok(()),
            NodePatchOutcome::Moved => {}
        }
    }
    Err(WindowRefusal::Failed(found.describe_conflict()))
}
