//! Opens sessions: over a recording, to the cluster's API, or on a host.

use super::assumed_cluster::AssumedCluster;
use super::cluster_session::ClusterSession;
use super::host_session::HostSession;
use super::read_only_session::ReadOnlySession;
use super::recorded_session::RecordedSession;
use super::run_options::SessionRequest;
use crate::transport::TransportError;

/// A kind of session that an observation opens: one that only takes probes, or one that may change its host later.
pub(super) trait OpenSession: ReadOnlySession {
    /// Opens the session on a host or its substitute.
    async fn open(request: SessionRequest<'_>) -> Result<Box<Self>, TransportError>;
}

impl OpenSession for dyn ReadOnlySession {
    async fn open(request: SessionRequest<'_>) -> Result<Box<Self>, TransportError> {
        if let Some(recording) = &request.options.replay.observed {
            return Ok(Box::new(RecordedSession::new(recording.replay_answers(request.host)?)));
        }
        if request.host.is_cluster()
            && let Some(release) = &request.options.replay.assumed_kubernetes
        {
            return Ok(Box::new(AssumedCluster::open(request.project, request.options, release)?));
        }
        if request.host.is_cluster() {
            return Ok(Box::new(ClusterSession::open(request.project, request.options).await?));
        }
        request.options.connector.get().open_read_only(request).await
    }
}

impl OpenSession for dyn HostSession {
    async fn open(request: SessionRequest<'_>) -> Result<Box<Self>, TransportError> {
        if let Some(recording) = &request.options.replay.observed {
            return Ok(Box::new(RecordedSession::new(recording.replay_answers(request.host)?)));
        }
        if request.host.is_cluster() {
            return Ok(Box::new(ClusterSession::open(request.project, request.options).await?));
        }
        request.options.connector.get().open_session(request).await
    }
}
