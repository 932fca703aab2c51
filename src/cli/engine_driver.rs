//! The driver of `--engine`: what starts workers, and what makes a run the only one.

use super::engine_settings::EngineKind;
use crate::config::Project;
use crate::engine::{
    CancelSignal, KubernetesDriver, KubernetesDriverError, LocalProcessDriver, RunOptions, UnavailableDriver,
    WorkerDriver,
};
use crate::object::WorkerRoleLabel;

/// What starts the workers of a run.
pub(super) enum EngineDriver {
    Local(LocalProcessDriver),
    Kubernetes(Box<KubernetesDriver>),
    /// The API cannot be used: hosts that workers would get are reported with that reason.
    Unavailable(UnavailableDriver),
}

impl EngineDriver {
    pub async fn open(kind: EngineKind, project: &Project, options: &RunOptions, role: WorkerRoleLabel) -> Self {
        match kind {
            EngineKind::Local => Self::Local(LocalProcessDriver),
            EngineKind::Kubernetes => match KubernetesDriver::open(project, options, role).await {
                Ok(driver) => Self::Kubernetes(Box::new(driver)),
                Err(why) => Self::Unavailable(UnavailableDriver(why)),
            },
        }
    }

    pub fn as_worker_driver(&self) -> &dyn WorkerDriver {
        match self {
            Self::Local(driver) => driver,
            Self::Kubernetes(driver) => driver.as_ref(),
            Self::Unavailable(driver) => driver,
        }
    }

    /// Excludes runs on other machines, where workers can be on other machines.
    ///
    /// # Errors
    /// Another run holds the lock, or workers of an earlier one have not ended: a lowercase fragment.
    pub async fn take_over(&mut self, cancel: &CancelSignal) -> Result<(), String> {
        let Self::Kubernetes(driver) = self else { return Ok(()) };
        match driver.take_over(cancel).await {
            Ok(()) => Ok(()),
            Err(KubernetesDriverError::Locked(why)) => Err(why),
            Err(KubernetesDriverError::Failed(why)) => {
                *self = Self::Unavailable(UnavailableDriver(why));
                Ok(())
            }
        }
    }

    /// Ends workers of a killed run on other machines, if there are any.
    pub async fn end_earlier_workers(&mut self) {
        if let Self::Kubernetes(driver) = self {
            driver.end_earlier_workers().await;
        }
    }

    /// Removes what was created for workers.
    pub async fn close(self) {
        if let Self::Kubernetes(driver) = self {
            driver.close().await;
        }
    }
}
