//! Views of hosts: made for a rehearsal, entered by its sessions, and ended with it.

use super::host_session::HostSession;
use super::read_only_session::{ReadOnlySession, SessionFuture};
use super::remote_session::{wrap_read_only, wrap_session};
use super::run_options::{SessionConnector, SessionRequest};
use crate::model::{HostName, SecretStore};
use crate::plan::ViewChanges;
use crate::script::ShellScript;
use crate::transport::{self, HostReader, KeptView, TransportError, TransportErrorKind, TransportSession};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Timeout of listing what changed in a view.
const REPORT_LIMIT: Duration = Duration::from_secs(600);

/// A host with its view.
pub(super) struct HostInView {
    /// The session on the host itself.
    session: TransportSession,
    kept: KeptView,
}

impl HostInView {
    /// Makes a view of the host of a session.
    ///
    /// # Errors
    /// The host cannot make a view.
    pub async fn start(session: TransportSession) -> Result<Self, TransportError> {
        let kept = KeptView::start(&session).await?;
        Ok(Self { session, kept })
    }

    /// Returns whether systemd runs on the host.
    pub fn host_runs_systemd(&self) -> bool {
        self.kept.view().host_runs_systemd
    }

    /// Returns everything that changed in the view. Reads it on the host itself.
    ///
    /// # Errors
    /// The changes could not be read: a lowercase fragment.
    pub async fn read_changes(&self, secrets: &SecretStore) -> Result<ViewChanges, String> {
        if self.kept.has_ended() {
            return Err(transport::VIEW_GUARD_MESSAGE.to_owned());
        }
        let token = transport::random_token().map_err(|error| error.message)?;
        let body = transport::build_view_report(self.kept.view());
        let script = ShellScript { body, token, limit: REPORT_LIMIT };
        let reader = HostReader::new(self.session.clone());
        let printed = reader.run_read_only(&script, secrets).await.map_err(|error| error.message)?;
        // A program that called systemctl is named with its arguments.
        ViewChanges::parse(&secrets.scrub_secrets(&String::from_utf8_lossy(&printed)))
    }

    /// Ends the view and closes the session.
    pub async fn end(self) {
        self.kept.end().await;
        self.session.close().await;
    }
}

/// Opens sessions in views.
#[derive(Clone, Default)]
pub(super) struct ViewConnector(Arc<Mutex<BTreeMap<HostName, TransportSession>>>);

impl ViewConnector {
    /// Adds the view of a host.
    pub fn add_view(&self, host: &HostName, view: &HostInView) {
        let entered = view.session.enter_view(view.kept.view());
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(host.clone(), entered);
    }

    fn find_session(&self, host: &HostName) -> Result<TransportSession, TransportError> {
        let sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.get(host).cloned().ok_or_else(|| TransportError {
            kind: TransportErrorKind::Shell,
            message: "no view was made of this host".to_owned(),
            hint: None,
            said: None,
            address: None,
            retryable: false,
            sent_anything: false,
        })
    }
}

impl SessionConnector for ViewConnector {
    fn open_session<'s>(&'s self, request: SessionRequest<'s>) -> SessionFuture<'s, Box<dyn HostSession>> {
        Box::pin(async move { Ok(wrap_session(self.find_session(request.host)?, request.options)) })
    }

    fn open_read_only<'s>(&'s self, request: SessionRequest<'s>) -> SessionFuture<'s, Box<dyn ReadOnlySession>> {
        Box::pin(async move { Ok(wrap_read_only(self.find_session(request.host)?, request.options)) })
    }
}
