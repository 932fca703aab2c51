//! The carrier of a declared command: a program that runs a shell on its stdin, such as `docker exec -i NAME sh`.

use super::carrier::{CarrierFuture, HostCarrier};
use super::channel::CommandChannel;
use super::{ConnectionTarget, TransportError};
use crate::model::HostName;

/// Starts commands through a program with its arguments.
pub(super) struct CommandCarrier(pub Vec<String>);

impl HostCarrier for CommandCarrier {
    fn open_channel<'c>(
        &'c self,
        _: &'c HostName,
        target: &'c ConnectionTarget,
        command: &'c str,
    ) -> CarrierFuture<'c, Result<CommandChannel, TransportError>> {
        Box::pin(async move { CommandChannel::open_program(&self.0, command, &target.surroundings) })
    }

    fn describe_missing_shell(&self, _: &ConnectionTarget) -> (String, &'static str) {
        let why = format!("`{}` did not start a shell", self.0.join(" "));
        (why, "the program must run a shell on its stdin, for example `docker exec -i NAME sh`")
    }
}
