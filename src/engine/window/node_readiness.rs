//! A node returns to service only with its declared state: ready, in the host's current boot, and with its devices
//! allocatable.

use super::window_node::{
    FIRST_POLL_PAUSE, MAX_API_FAILURES, NodeEvents, PATCH_ATTEMPTS, WindowDrainError, WindowNode, failed_node,
    join_first, pair_with_claim, pause_with_backoff,
};
use super::window_refusal::WindowRefusal;
use crate::config::{NodeReturnCondition, ResourceOffer};
use crate::engine::cancel::CancelSignal;
use crate::engine::event::NodeDrainEvent;
use crate::facts;
use crate::kube::NodePatchOutcome;
use crate::model::UntrustedText;
use crate::object::ClusterNode;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Waits until the node offers everything declared. Meanwhile only the GPU operator's pods return.
///
/// # Errors
/// The node was not complete in time: it stays cordoned by forge, and the next run continues from here.
pub(super) async fn await_node_ready(
    drain: &WindowNode<'_>,
    cancel: &CancelSignal,
    events: &mut NodeEvents<'_>,
    boot: Option<&str>,
) -> Result<(), WindowRefusal> {
    let Some(returns) = &drain.rule.returns else { return Ok(()) };
    restore_operator_pods(drain).await?;
    let until = Instant::now() + Duration::from_secs(returns.within_s);
    let (mut told, mut pause, mut failures) = (Vec::new(), FIRST_POLL_PAUSE, 0);
    loop {
        match drain.cluster.find_node(&drain.node).await {
            Ok(node) => {
                // A node that forge no longer claims is not uncordoned.
                let Some((node, _)) = node.and_then(pair_with_claim) else { return Ok(()) };
                let lacks = list_missing_offers(&node, returns, boot);
                if lacks.is_empty() {
                    return Ok(());
                }
                if Instant::now() >= until {
                    return Err(WindowRefusal::Failed(drain.describe_missing(returns, &lacks)));
                }
                failures = 0;
                report_missing_offers(events, drain, &lacks, &mut told);
            }
            Err(error) if failures < MAX_API_FAILURES => {
                failures += 1;
                tracing::debug!(error = error.message, "the API did not answer");
            }
            Err(error) => return Err(failed_node(error)),
        }
        if let Err(WindowDrainError::Stopped) = pause_with_backoff(cancel, &mut pause, until).await {
            return Err(WindowRefusal::Stopped);
        }
    }
}

/// Reports the missing resources, each time they change.
fn report_missing_offers(
    events: &mut NodeEvents<'_>,
    drain: &WindowNode<'_>,
    lacks: &[String],
    told: &mut Vec<String>,
) {
    if *told != *lacks {
        lacks.clone_into(told);
        let what = lacks.iter().map(|lack| UntrustedText::from(lack.as_str())).collect();
        events.emit_event(&drain.node, NodeDrainEvent::Lacks { what });
    }
}

async fn restore_operator_pods(drain: &WindowNode<'_>) -> Result<(), WindowRefusal> {
    for _ in 0..PATCH_ATTEMPTS {
        let node = drain.cluster.find_node(&drain.node).await.map_err(failed_node)?;
        let Some((node, claim)) = node.and_then(pair_with_claim) else { return Ok(()) };
        let Some(patch) = claim.restore_operands_patch(&node) else { return Ok(()) };
        match drain.cluster.patch_node(&node, patch).await.map_err(failed_node)? {
            NodePatchOutcome::Moved => {}
            NodePatchOutcome::Gone | NodePatchOutcome::Done => return Ok(()),
        }
    }
    Err(WindowRefusal::Failed(drain.describe_conflict()))
}

impl WindowNode<'_> {
    fn describe_missing(&self, returns: &NodeReturnCondition, lacks: &[String]) -> String {
        let node = &self.node;
        format!("Kubernetes node {node} stays cordoned: missing after {} s: {}", returns.within_s, join_first(lacks))
    }
}

/// Returns a node's missing conditions and resources as phrases; `boot` is the host's boot id.
fn list_missing_offers(node: &ClusterNode, returns: &NodeReturnCondition, boot: Option<&str>) -> Vec<String> {
    let mut lacks = Vec::new();
    match boot {
        Some(boot) if boot == node.boot_id => {}
        Some(_) => lacks.push("a kubelet started after the last boot".to_owned()),
        None => lacks.push("the host's boot id".to_owned()),
    }
    if !node.ready {
        lacks.push("a ready kubelet".to_owned());
    }
    lacks.extend(returns.offers.iter().filter_map(|(name, offer)| describe_shortage(node, name, *offer)));
    lacks
}

/// Returns the available amount of a resource if it is insufficient. An invalid quantity is insufficient.
fn describe_shortage(node: &ClusterNode, name: &str, offer: ResourceOffer) -> Option<String> {
    let of = |map: &BTreeMap<String, String>| map.get(name).map_or(Ok(0), |text| facts::parse_whole_quantity(text));
    let (has, wanted) = match (of(&node.allocatable), of(&node.capacity)) {
        (Err(why), _) | (_, Err(why)) => return Some(format!("{name} ({why})")),
        (Ok(has), Ok(capacity)) => match offer {
            ResourceOffer::Count(count) => (has, count),
            ResourceOffer::Capacity => (has, capacity.max(1)),
        },
    };
    (has < wanted).then(|| format!("{name} ({has} of {wanted})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node_with_allocatable(allocatable: &[(&str, &str)]) -> ClusterNode {
        let map = |all: &[(&str, &str)]| all.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        ClusterNode {
            ready: true,
            boot_id: "b".to_owned(),
            capacity: map(&[("nvidia.com/gpu", "8"), ("rdma/ib", "1k")]),
            allocatable: map(allocatable),
            ..ClusterNode::default()
        }
    }

    fn list_missing_with(node: &ClusterNode, offers: &[(&str, ResourceOffer)], boot: Option<&str>) -> Vec<String> {
        let offers = offers.iter().map(|(name, offer)| ((*name).to_owned(), *offer)).collect();
        list_missing_offers(node, &NodeReturnCondition { offers, within_s: 1 }, boot)
    }

    #[test]
    fn missing_declared_resources_are_listed() {
        let offers = [("nvidia.com/gpu", ResourceOffer::Count(8)), ("rdma/ib", ResourceOffer::Count(63))];
        let whole = node_with_allocatable(&[("nvidia.com/gpu", "8"), ("rdma/ib", "1k")]);
        assert_eq!(list_missing_with(&whole, &offers, Some("b")), [""; 0]);
        assert_eq!(
            list_missing_with(&node_with_allocatable(&[("nvidia.com/gpu", "7")]), &offers, Some("b")),
            ["nvidia.com/gpu (7 of 8)", "rdma/ib (0 of 63)"]
        );
        assert_eq!(
            list_missing_with(&node_with_allocatable(&[("nvidia.com/gpu", "x")]), &offers[..1], Some("b")),
            ["nvidia.com/gpu (`x` is not a valid quantity)"]
        );
    }

    #[test]
    fn capacity_offer_requires_full_nonzero_capacity() {
        let all = [("nvidia.com/gpu", ResourceOffer::Capacity), ("rdma/ib", ResourceOffer::Capacity)];
        let half = node_with_allocatable(&[("nvidia.com/gpu", "8"), ("rdma/ib", "500")]);
        assert_eq!(list_missing_with(&half, &all, Some("b")), ["rdma/ib (500 of 1000)"]);
        assert_eq!(list_missing_with(&half, &[("x", ResourceOffer::Capacity)], Some("b")), ["x (0 of 1)"]);
    }

    #[test]
    fn kubelet_from_another_boot_is_not_ready() {
        let mut node = node_with_allocatable(&[]);
        assert_eq!(list_missing_with(&node, &[], Some("c")), ["a kubelet started after the last boot"]);
        assert_eq!(list_missing_with(&node, &[], None), ["the host's boot id"]);
        node.ready = false;
        assert_eq!(list_missing_with(&node, &[], Some("b")), ["a ready kubelet"]);
    }
}
