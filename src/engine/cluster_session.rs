//! The cluster's API as a target like a host: opening, observing, changing.

use super::host_session::{HostLockAttempt, host_side_error, open_transport_session};
use super::run_context::RunOptions;
use crate::config::Project;
use crate::kube::{ClusterApi, ClusterLockError, ClusterReader, ClusterWriter, HelmOptions, KubeError};
use crate::model::SecretStore;
use crate::object::ClusterAccess;
use crate::probe::{Observation, Probe};
use crate::transport::{LockOwner, TransportError, TransportErrorKind};
use std::collections::BTreeSet;

/// Opens the API that the inventory declares, through a host's session if declared.
pub(super) async fn open_cluster(
    project: &Project,
    access: &ClusterAccess,
    options: &RunOptions,
) -> Result<ClusterApi, KubeError> {
    let cluster = match &access.via {
        None => ClusterApi::open(access).await?,
        Some(host) => {
            let session = open_transport_session(project, options, host, &project.secrets).await;
            ClusterApi::open_through_host(
                access,
                session.map_err(|error| KubeError::from_transport_error(host, &error))?,
            )
            .await?
        }
    };
    Ok(cluster.with_helm(build_helm_options(options)))
}

/// Fetched charts are stored next to artifacts.
pub(super) fn build_helm_options(options: &RunOptions) -> HelmOptions {
    let depot = &options.depot;
    let charts = depot.cache().root().parent().map(|root| root.join("charts"));
    HelmOptions { charts, offline: depot.is_offline(), ..HelmOptions::default() }
}

/// Opens the API read-only.
pub(super) async fn open_cluster_reader(
    project: &Project,
    options: &RunOptions,
) -> Result<ClusterReader, TransportError> {
    let access =
        project.kubernetes.as_ref().ok_or_else(|| host_side_error("the inventory has no `kubernetes`".to_owned()))?;
    let cluster = open_cluster(project, access, options).await.map_err(to_transport_error)?;
    Ok(ClusterReader::new(cluster, &project.cluster))
}

/// Sends `probes` and stores the answers if required.
pub(super) async fn observe_cluster(
    looker: &ClusterReader,
    probes: &BTreeSet<Probe>,
    keep: bool,
    secrets: &SecretStore,
) -> Result<Observation, TransportError> {
    let mut seen = Observation::default();
    if keep {
        seen.enable_recording();
    }
    for (probe, answer) in looker.observe_probes(probes, secrets).await.map_err(to_transport_error)? {
        seen.record_api_answer(probe, answer);
    }
    Ok(seen)
}

/// Takes the cluster's lock.
pub(super) async fn lock_cluster(
    looker: &ClusterReader,
    owner: &LockOwner,
    clock: fn() -> jiff::Timestamp,
) -> Result<(HostLockAttempt, Option<ClusterWriter>), TransportError> {
    match looker.acquire_lock(owner, clock).await {
        Ok(writer) => Ok((HostLockAttempt::Ours, Some(writer))),
        Err(ClusterLockError::Held(other)) => Ok((HostLockAttempt::Held(other), None)),
        Err(ClusterLockError::Failed(error)) => Err(to_transport_error(error)),
    }
}

/// The error of running a command on the API.
pub(super) fn no_commands_error() -> TransportError {
    host_side_error("the cluster's API is not a host: commands cannot run there".to_owned())
}

/// Converts an API failure into that of an unreachable host.
pub(super) fn to_transport_error(error: KubeError) -> TransportError {
    TransportError {
        kind: TransportErrorKind::Connect,
        message: error.message,
        address: None,
        hint: error.hint,
        said: None,
        retryable: false,
        sent_anything: false,
    }
}
