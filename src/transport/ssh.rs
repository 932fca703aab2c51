//! The ssh carrier (being built).
use super::channel::Channel;
use super::{Target, TransportError};
use crate::model::HostName;
pub(super) struct Link;
impl Link {
    pub(super) async fn connect(_: &HostName, _: &Target) -> Result<Self, TransportError> { Err(super::session::lost()) }
    pub(super) async fn channel(&self, _: &HostName, _: &Target, _: &str) -> Result<Channel, TransportError> { Err(super::session::lost()) }
    pub(super) async fn is_alive(&self) -> bool { false }
    pub(super) async fn reconnect(&self, _: &HostName, _: &Target) -> Result<(), TransportError> { Err(super::session::lost()) }
    pub(super) async fn close(&self, _: &Target) {}
}
