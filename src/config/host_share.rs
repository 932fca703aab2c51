//! A number of hosts, as a count or a percentage.

/// A count or a percentage of the selected hosts; percentages are rounded down, at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostShare {
    /// A number of hosts, however many are selected.
    Count(u32),
    /// Percent of the selected hosts, 0 to 100.
    Percent(u32),
}

impl HostShare {
    /// Returns the share of `total` as a count.
    pub fn resolve_count(self, total: usize) -> usize {
        match self {
            Self::Count(count) => count as usize,
            Self::Percent(percent) => (total * percent as usize / 100).max(1).min(total.max(1)),
        }
    }
}
