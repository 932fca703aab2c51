//! A carrier: what starts commands on a host, or on a substitute for one.

use super::channel::CommandChannel;
use super::{ConnectionTarget, TransportError, TransportErrorKind};
use crate::model::HostName;
use std::net::SocketAddr;
use std::pin::Pin;

/// The future of a carrier's method. Boxed, so that every kind of carrier has the same type.
pub(super) type CarrierFuture<'c, T> = Pin<Box<dyn Future<Output = T> + Send + 'c>>;

/// Starts commands on one host.
pub(super) trait HostCarrier: Send + Sync {
    /// Starts a command.
    fn open_channel<'c>(
        &'c self,
        host: &'c HostName,
        target: &'c ConnectionTarget,
        command: &'c str,
    ) -> CarrierFuture<'c, Result<CommandChannel, TransportError>>;

    /// Returns why no shell started, and what to do.
    fn describe_missing_shell(&self, target: &ConnectionTarget) -> (String, &'static str);

    /// Reports whether the connection is known to be lost.
    fn is_lost(&self) -> CarrierFuture<'_, bool> {
        Box::pin(async { false })
    }

    /// Reconnects if the connection is lost.
    fn reconnect<'c>(
        &'c self,
        _host: &'c HostName,
        _target: &'c ConnectionTarget,
    ) -> CarrierFuture<'c, Result<(), TransportError>> {
        Box::pin(async { Ok(()) })
    }

    /// Forwards connections to the returned address of this machine through the host to `to`. Returns `None` if the
    /// host is this machine.
    fn forward_port<'c>(
        &'c self,
        _host: &'c HostName,
        _target: &'c ConnectionTarget,
        _to: (&'c str, u16),
    ) -> CarrierFuture<'c, Result<Option<SocketAddr>, TransportError>> {
        Box::pin(async {
            let error = TransportError::new(
                TransportErrorKind::Channel,
                "port forwarding requires a host with the ssh transport",
            );
            Err(error.hint("name a host with the ssh transport, or this machine"))
        })
    }

    /// Returns the number of connections made so far.
    fn generation(&self) -> u64 {
        1
    }

    /// Closes the connection, unless it is to be kept for the next run.
    fn close<'c>(&'c self, _target: &'c ConnectionTarget) -> CarrierFuture<'c, ()> {
        Box::pin(async {})
    }
}

/// Describes a login shell that did not start `sh`.
pub(super) fn describe_missing_login_shell(target: &ConnectionTarget) -> (String, &'static str) {
    let why = format!("no shell started for {}", target.user_name());
    (why, "the login shell must run `sh` without prompting")
}
