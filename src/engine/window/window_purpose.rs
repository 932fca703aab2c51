//! Why a host is out of service.

/// Why a host is out of service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WindowPurpose {
    /// Its state changes.
    Change,
    /// It is measured, and does not change.
    Test,
}

impl WindowPurpose {
    /// Returns the word in the mark.
    pub fn name(self) -> &'static str {
        match self {
            Self::Change => "change",
            Self::Test => "test",
        }
    }
}
