//! Why a host is out of service.

/// Why a host is out of service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum WindowPurpose {
    /// Its state changes.
    Change,
    /// It is measured, and does not change.
    Test,
    /// It is measured by jobs of the cluster, which get its GPUs from the pods of the GPU operator.
    TestByJobs,
}

impl WindowPurpose {
    /// Returns the word in the mark.
    pub fn name(self) -> &'static str {
        match self {
            Self::Change => "change",
            Self::Test | Self::TestByJobs => "test",
        }
    }
}
