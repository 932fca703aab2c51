//! The carrier of this machine: commands are its own processes.

use super::carrier::{CarrierFuture, HostCarrier, describe_missing_login_shell};
use super::channel::CommandChannel;
use super::{ConnectionTarget, TransportError};
use crate::model::HostName;
use std::net::SocketAddr;

/// Starts commands on this machine.
pub(super) struct LocalCarrier;

impl HostCarrier for LocalCarrier {
    fn open_channel<'c>(
        &'c self,
        _: &'c HostName,
        _: &'c ConnectionTarget,
        command: &'c str,
    ) -> CarrierFuture<'c, Result<CommandChannel, TransportError>> {
        Box::pin(async move { CommandChannel::open_local(command) })
    }

    fn describe_missing_shell(&self, target: &ConnectionTarget) -> (String, &'static str) {
        describe_missing_login_shell(target)
    }

    fn forward_port<'c>(
        &'c self,
        _: &'c HostName,
        _: &'c ConnectionTarget,
        _: (&'c str, u16),
    ) -> CarrierFuture<'c, Result<Option<SocketAddr>, TransportError>> {
        Box::pin(async { Ok(None) })
    }
}
