//! The cluster's API as a target like a host: opening, observing, changing.

use super::host_session::{HostLockAttempt, HostScriptOutput, HostSession, host_side_error};
use super::observation_settings::ObservationSettings;
use super::read_only_session::{ReadOnlySession, SessionClosing, SessionFuture};
use super::remote_session::open_transport_session;
use super::run_options::RunOptions;
use crate::config::Project;
use crate::kube::{ClusterApi, ClusterLockError, ClusterReader, ClusterWriter, HelmOptions, KubeError};
use crate::model::SecretStore;
use crate::object::{ClusterAbsence, ClusterAccess};
use crate::probe::{Observation, Probe};
use crate::script::ShellFragment;
use crate::transport::{LockOwner, TransportError, TransportErrorKind};
use std::collections::BTreeSet;
use std::time::Duration;

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
    HelmOptions {
        charts,
        offline: depot.is_offline(),
        answers: options.chart_answers.clone(),
        ..HelmOptions::default()
    }
}

/// A connection to the cluster's API, read-only until its lock is taken.
pub(super) struct ClusterSession {
    access: ClusterSessionAccess,
    settings: ObservationSettings,
    clock: fn() -> jiff::Timestamp,
}

enum ClusterSessionAccess {
    Reading(Box<ClusterReader>),
    Locked(Box<ClusterWriter>),
}

impl ClusterSession {
    /// Opens the API read-only.
    pub async fn open(project: &Project, options: &RunOptions) -> Result<Self, TransportError> {
        let access = ClusterSessionAccess::Reading(Box::new(open_cluster_reader(project, options).await?));
        Ok(Self { access, settings: ObservationSettings::from_options(options), clock: options.clock })
    }

    fn reader(&self) -> &ClusterReader {
        match &self.access {
            ClusterSessionAccess::Reading(reader) => reader,
            ClusterSessionAccess::Locked(writer) => writer.reader(),
        }
    }
}

impl ReadOnlySession for ClusterSession {
    fn observe<'s>(&'s self, probes: &'s BTreeSet<Probe>, secrets: &'s SecretStore) -> SessionFuture<'s, Observation> {
        let ask = observe_cluster(self.reader(), probes, self.settings.keeps_raw_answers(), secrets);
        Box::pin(self.settings.observe_and_stamp(ask))
    }

    fn close(self: Box<Self>) -> SessionClosing {
        Box::pin(async move {
            match self.access {
                ClusterSessionAccess::Reading(reader) => reader.close().await,
                ClusterSessionAccess::Locked(writer) => writer.unlock().await.close().await,
            }
        })
    }
}

impl HostSession for ClusterSession {
    fn take_lock<'s>(&'s mut self, owner: &'s LockOwner) -> SessionFuture<'s, HostLockAttempt> {
        Box::pin(async move {
            let ClusterSessionAccess::Reading(reader) = &self.access else { return Ok(HostLockAttempt::Ours) };
            match reader.acquire_lock(owner, self.clock).await {
                Ok(writer) => {
                    self.access = ClusterSessionAccess::Locked(Box::new(writer));
                    Ok(HostLockAttempt::Ours)
                }
                Err(ClusterLockError::Held(other)) => Ok(HostLockAttempt::Held(other)),
                Err(ClusterLockError::Failed(error)) => Err(to_transport_error(error)),
            }
        })
    }

    fn run_script<'s>(
        &'s self,
        _: ShellFragment,
        _: Duration,
        _: &'s SecretStore,
    ) -> SessionFuture<'s, HostScriptOutput> {
        Box::pin(async { Err(no_commands_error()) })
    }

    fn cluster_writer(&self) -> Option<&ClusterWriter> {
        match &self.access {
            ClusterSessionAccess::Reading(_) => None,
            ClusterSessionAccess::Locked(writer) => Some(writer),
        }
    }
}

/// Opens the API that the inventory declares, read-only.
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

/// The error of running a command on the API.
pub(super) fn no_commands_error() -> TransportError {
    host_side_error("the cluster's API is not a host: commands cannot run there".to_owned())
}

/// Converts an API failure into that of a host.
fn to_transport_error(error: KubeError) -> TransportError {
    let kind = match error.absence {
        Some(ClusterAbsence::NoKubeconfig) => TransportErrorKind::NoLogin,
        Some(ClusterAbsence::NoAnswer) => TransportErrorKind::NoAnswer,
        None if error.denied => TransportErrorKind::ApiDenied,
        None => TransportErrorKind::Connect,
    };
    TransportError {
        kind,
        message: error.message,
        address: None,
        hint: error.hint,
        said: None,
        retryable: false,
        sent_anything: false,
    }
}
