//! The distributions of nodes: the releases of Debian that run there, and those that a node can claim to be.

use serde::Deserialize;

/// A release of Debian that a node runs. They bracket Ubuntu 22.04 and 24.04: systemd 247 to 257, apt 2.2 to 3.0, OpenSSH
/// 8.4 to 10.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Distribution {
    Debian11,
    Debian12,
    Debian13,
}

impl Distribution {
    pub const ALL: [Distribution; 3] = [Self::Debian11, Self::Debian12, Self::Debian13];
    /// Those on which the tests do not run by default.
    pub const OTHERS: [Distribution; 2] = [Self::Debian11, Self::Debian13];

    /// Returns the release that `FORGE_DISTRIBUTION` names, on which all tests then run.
    ///
    /// # Panics
    /// If it names none.
    pub fn wanted() -> Option<Distribution> {
        let name = std::env::var("FORGE_DISTRIBUTION").ok()?;
        let found = Self::ALL.into_iter().find(|one| one.name() == name);
        Some(found.unwrap_or_else(|| panic!("FORGE_DISTRIBUTION: `{name}` is not a release of the fleet")))
    }

    /// Returns the name that `tests/fleet/fleet` and the marks of proofs use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Debian11 => "debian-11",
            Self::Debian12 => "debian-12",
            Self::Debian13 => "debian-13",
        }
    }
}

/// A distribution that a node of Debian 12 claims to be: a file of `tests/fleet/distros`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum ClaimedDistribution {
    #[serde(rename = "ubuntu-22.04")]
    Ubuntu2204,
    #[serde(rename = "ubuntu-24.04")]
    Ubuntu2404,
    #[serde(rename = "rocky-9")]
    Rocky9,
}

impl ClaimedDistribution {
    pub const ALL: [ClaimedDistribution; 3] = [Self::Ubuntu2204, Self::Ubuntu2404, Self::Rocky9];

    /// Returns the distribution that `FORGE_CLAIM` names: only proofs on hosts that claim it then run.
    ///
    /// # Panics
    /// If it names none.
    pub fn wanted() -> Option<ClaimedDistribution> {
        let name = std::env::var("FORGE_CLAIM").ok()?;
        let found = Self::ALL.into_iter().find(|one| one.name() == name);
        Some(found.unwrap_or_else(|| panic!("FORGE_CLAIM: `{name}` is not a distribution that a node can claim to be")))
    }

    /// Returns the name that `tests/fleet/fleet` and the marks of proofs use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ubuntu2204 => "ubuntu-22.04",
            Self::Ubuntu2404 => "ubuntu-24.04",
            Self::Rocky9 => "rocky-9",
        }
    }
}

/// The system of the hosts of one proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProofSystem {
    Release(Distribution),
    /// Debian 12 that claims to be another distribution.
    Claimed(ClaimedDistribution),
}

impl ProofSystem {
    pub fn name(self) -> &'static str {
        match self {
            Self::Release(distribution) => distribution.name(),
            Self::Claimed(distribution) => distribution.name(),
        }
    }

    /// Returns the release of Debian that its hosts run.
    pub fn release(self) -> Distribution {
        match self {
            Self::Release(distribution) => distribution,
            Self::Claimed(_) => Distribution::Debian12,
        }
    }
}
