//! What must hold before a host is brought back into service, in addition to its verifications.

use super::window_refusal::WindowRefusal;
use crate::engine::event::ReturnTest;
use crate::engine::host_work::HostWork;
use crate::plan::HostWindow;
use std::pin::Pin;

/// A future of a [`ReturnCheck`].
pub(in crate::engine) type ReturnFuture<'c> =
    Pin<Box<dyn Future<Output = (Vec<ReturnTest>, Result<(), WindowRefusal>)> + 'c>>;

/// Checks a host whose changes are verified and that is still out of service.
pub(in crate::engine) trait ReturnCheck {
    /// Returns the measurements, and whether the host may be brought back.
    fn check_host<'c>(&'c self, work: &'c mut HostWork<'_>, window: &'c HostWindow) -> ReturnFuture<'c>;
}
