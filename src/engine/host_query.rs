//! The first questions to a host, and its state if it cannot answer them.

use super::host_session::describe_transport_error;
use super::read_only_session::ReadOnlySession;
use crate::config::{Host, Project, TransportKind};
use crate::model::{HostName, SecretStore, UntrustedText};
use crate::object::ClusterAbsence;
use crate::plan::{MissingCluster, ObservedHost, UnreachableReason};
use crate::probe::Probe;
use crate::transport::{TransportError, TransportErrorKind};
use std::collections::BTreeSet;

/// Sends probes over a channel of their own. Returns the host as unreachable if it refuses the channel.
pub(super) async fn open_second_channel(
    link: &(impl ReadOnlySession + ?Sized),
    host: &HostName,
    probes: &BTreeSet<Probe>,
    secrets: &SecretStore,
) -> Option<ObservedHost> {
    if probes.is_empty() || host.is_cluster() {
        return None;
    }
    let error = link.observe(probes, secrets).await.err()?;
    (error.kind == TransportErrorKind::Channel).then(|| from_failed_session(host, &error))
}

/// Sends the first probes. A host whose login sees other mounts than the host itself counts as not observed, except where a
/// command is declared, which decides itself what it enters.
pub(super) async fn query_host(
    project: &Project,
    link: &(impl ReadOnlySession + ?Sized),
    host: &HostName,
    probes: &BTreeSet<Probe>,
) -> ObservedHost {
    let seen = match link.observe(probes, &project.secrets).await {
        Ok(observation) => ObservedHost::from_observation(host, observation, 1),
        Err(error) => return from_failed_session(host, &error),
    };
    let enters = |declared: &Host| matches!(declared.connect.transport, TransportKind::Command(_));
    match seen.has_own_mounts() && !project.hosts.get(host).is_some_and(enters) {
        true => {
            ObservedHost { trips: seen.trips, ..ObservedHost::from_unreachable(host, UnreachableReason::own_mounts()) }
        }
        false => seen,
    }
}

/// Returns the state of a host whose session failed. A cluster may not exist yet.
pub(super) fn from_failed_session(host: &HostName, error: &TransportError) -> ObservedHost {
    let absence = match error.kind {
        TransportErrorKind::NoLogin => Some(ClusterAbsence::NoKubeconfig),
        TransportErrorKind::NoAnswer => Some(ClusterAbsence::NoAnswer),
        _ => None,
    };
    let missing = absence.filter(|_| host.is_cluster()).map(|absence| {
        let why = describe_transport_error(error);
        MissingCluster::new(why, absence)
    });
    ObservedHost { missing, ..ObservedHost::from_unreachable(host, to_unreachable(error)) }
}

fn to_unreachable(error: &TransportError) -> UnreachableReason {
    let untrusted = |text: &Option<String>| text.as_deref().map(UntrustedText::from);
    UnreachableReason {
        why: describe_transport_error(error),
        hint: untrusted(&error.hint),
        address: untrusted(&error.address),
    }
}
